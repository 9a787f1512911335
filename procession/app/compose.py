"""What the rooms are made of: each gets the few values of the settings that are for it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta

from procession.actions.load import built_in, load
from procession.actions.registry import Registry
from procession.actions.request import Stored, kept_in
from procession.api.services import ClaimNames, Retention, Services
from procession.app import providers
from procession.app.budgets import allowed, longest_calls
from procession.app.settings import Settings
from procession.outbound.breaker import BreakerRule
from procession.outbound.http import Client, Rules
from procession.outbound.oauth import Tokens
from procession.outbound.oidc import Issuer, Provider
from procession.outbound.retry import Tries
from procession.queue.pool import Pool
from procession.queue.removal import Windows
from procession.queue.sealing import Ring


def registry(settings: Settings, pool: Pool) -> Registry:
    """The actions that are installed here, each with what it needs to be performed."""
    return load(
        built_in(
            allow_insecure_signed_urls=settings.webhooks__allow_insecure_signed_urls,
            mailer=providers.mailer(settings, tries(settings)),
            texts=providers.texts(settings),
            vercel=providers.vercel(settings),
            requests=Stored(kept_in(pool), ring(settings), Tokens()),
        )
    )


def services(
    settings: Settings,
    pool: Pool,
    prober: Client,
    issuer: Issuer | None,
    reasons: Callable[[], Awaitable[list[str]]],
) -> Services:
    """What the API stands on."""
    return Services(
        pool=pool,
        ring=ring(settings),
        console_url=settings.app__console_url or None,
        prober=prober,
        allowed_networks=settings.outbound__allowed_networks,
        control_tokens=settings.control_token,
        issuer=issuer,
        claims=ClaimNames(
            tenant=settings.auth__oidc__tenant_claim,
            roles=settings.auth__oidc__role_claim,
            name=settings.auth__oidc__name_claim,
            email=settings.auth__oidc__email_claim,
        ),
        max_body_bytes=settings.http__max_body_bytes,
        catalogue=load(built_in()).catalogue(),
        longest=longest_calls(settings),
        most_seconds=allowed(settings),
        insecure_signed_urls=settings.webhooks__allow_insecure_signed_urls,
        retention=retention(settings),
        reasons=reasons,
    )


def ring(settings: Settings) -> Ring:
    """The keys of what is kept secret."""
    return Ring(settings.secrets__keys)


def retention(settings: Settings) -> Retention:
    """How long finished runs are kept; None for ever, which zero days or less are too."""
    if not settings.workflows__retention__enabled:
        return Retention()
    return Retention(
        succeeded=_days(settings.workflows__retention__succeeded),
        failed=_days(settings.workflows__retention__failed),
    )


def windows(settings: Settings) -> Windows:
    """How long the sweep leaves what is kept."""
    runs = retention(settings)
    return Windows(
        succeeded=runs.succeeded,
        failed=runs.failed,
        bodies=timedelta(hours=settings.webhooks__response_body_retention_hours),
        deliveries=_days(settings.webhooks__delivery_log_retention_days),
    )


def _days(days: int) -> timedelta | None:
    return timedelta(days=days) if days > 0 else None


def client(settings: Settings) -> Client:
    """The one client of a process for calls that leave."""
    rule = BreakerRule(
        failures=settings.workflows__outbound__breaker_failures,
        window=settings.workflows__outbound__breaker_window,
        sampling=timedelta(seconds=settings.workflows__outbound__breaker_sampling_seconds),
        rest=timedelta(seconds=settings.workflows__outbound__breaker_open_seconds),
    )
    return Client(Rules(settings.outbound__allowed_networks, tries(settings), rule))


def prober(settings: Settings) -> Client:
    """The client of the API: it tries a connector once, for somebody who waits and looks."""
    once = replace(tries(settings), retries=0)
    return Client(Rules(settings.outbound__allowed_networks, once, BreakerRule(failures=0)))


def issuer(settings: Settings) -> AbstractAsyncContextManager[Issuer | None]:
    """Whose tokens are taken. It rests after failures of its own accord, so without a breaker."""
    if not settings.auth__oidc__issuer:
        return nullcontext()
    rules = Rules(settings.outbound__allowed_networks, tries(settings), BreakerRule(failures=0))
    provider = Provider(settings.auth__oidc__issuer, settings.auth__oidc__audience)
    return Issuer(Client(rules), provider)


def tries(settings: Settings) -> Tries:
    """How often and how patiently a call is tried."""
    return Tries(
        retries=settings.workflows__outbound__retries,
        each=timedelta(seconds=settings.workflows__outbound__attempt_timeout_seconds),
        floor=timedelta(milliseconds=settings.workflows__outbound__base_delay_milliseconds),
        ceiling=timedelta(seconds=settings.workflows__outbound__max_delay_seconds),
        longest_retry_after=timedelta(
            seconds=settings.workflows__outbound__max_retry_after_seconds
        ),
    )
