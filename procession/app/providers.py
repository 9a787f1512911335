"""Who takes what leaves by email, text message and Vercel, and whether enough is said of each."""

from dataclasses import replace
from datetime import timedelta

from procession.actions.revalidate_cache import Vercel
from procession.app.budgets import email_retries
from procession.app.settings import Settings
from procession.outbound.mail import Mailer
from procession.outbound.mailbox import mailbox
from procession.outbound.resend import Resend
from procession.outbound.retry import Tries
from procession.outbound.sms import Twilio
from procession.outbound.smtp import Smtp
from procession.outbound.smtp_session import Relay, Security

VERCEL = ("VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID")
LOGIN = ("EMAIL__SMTP__USERNAME", "EMAIL__SMTP__PASSWORD")
NEEDED = {
    "EMAIL__PROVIDER=smtp": ("EMAIL__FROM", "EMAIL__SMTP__HOST"),
    "EMAIL__PROVIDER=resend": ("EMAIL__FROM", "EMAIL__RESEND__API_KEY"),
    "SMS__PROVIDER=twilio": ("SMS__FROM", "SMS__TWILIO__ACCOUNT_SID", "SMS__TWILIO__AUTH_TOKEN"),
}


def missing(settings: Settings) -> list[str]:
    """A line for each variable that others make necessary and that is not set."""
    chosen = (
        f"EMAIL__PROVIDER={settings.email__provider}",
        f"SMS__PROVIDER={settings.sms__provider}",
    )
    faults = [
        f"{name} is not set: {one} needs it"
        for one in chosen
        for name in NEEDED.get(one, ())
        if not _is_set(settings, name)
    ]
    for together in (LOGIN, VERCEL):
        given = [name for name in together if _is_set(settings, name)]
        faults += [
            f"{name} is not set: {' and '.join(given)} needs it"
            for name in together
            if given and name not in given
        ]
    return faults


def _is_set(settings: Settings, name: str) -> bool:
    return bool(getattr(settings, name.lower()))


def mailer(settings: Settings, tries: Tries) -> Mailer | None:
    """How email leaves; None when it does not."""
    provider = _mail_provider(settings)
    if provider is None:
        return None
    limit = settings.workflows__outbound__email_send_timeout_seconds
    return Mailer(
        provider,
        mailbox(settings.email__from),
        replace(tries, retries=email_retries(settings)),
        timedelta(seconds=limit) if limit else None,
    )


def _mail_provider(settings: Settings) -> Smtp | Resend | None:
    match settings.email__provider:
        case "smtp":
            return Smtp(
                Relay(
                    host=settings.email__smtp__host,
                    port=settings.email__smtp__port,
                    security=Security(settings.email__smtp__security),
                    username=settings.email__smtp__username,
                    password=settings.email__smtp__password,
                    step=timedelta(seconds=settings.email__smtp__timeout_seconds),
                )
            )
        case "resend":
            each = timedelta(seconds=settings.email__resend__timeout_seconds)
            return Resend(api_key=settings.email__resend__api_key, each=each)
        case "none":
            return None


def texts(settings: Settings) -> Twilio | None:
    """How text messages leave; None when they do not."""
    if settings.sms__provider == "none":
        return None
    return Twilio(
        sender=settings.sms__from,
        account_sid=settings.sms__twilio__account_sid,
        auth_token=settings.sms__twilio__auth_token,
    )


def vercel(settings: Settings) -> Vercel | None:
    """Whose cache is told; None for nobody's."""
    if not settings.vercel_token:
        return None
    return Vercel(
        token=settings.vercel_token,
        team_id=settings.vercel_team_id,
        project_id=settings.vercel_project_id,
    )
