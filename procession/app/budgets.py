"""What an attempt may take at most, beside the lease that must hold it.

A worker whose sums do not fit does not start: an attempt that outlives its lease would be cut off
with nobody knowing what it has done.
"""

from dataclasses import dataclass

from procession.app.settings import Settings
from procession.outbound.capture import SECONDS as BODY
from procession.outbound.oauth import DEADLINE as GRANT
from procession.outbound.smtp import STEPS

SHARE = 0.8  # of a lease that a call may take; the rest is for what comes after it

OUTBOUND = "WORKFLOWS__OUTBOUND__"


@dataclass(frozen=True, slots=True)
class Budget:
    """One thing that may take long: its parts in seconds by setting, and how they add up."""

    what: str
    parts: dict[str, float]
    sum: str
    seconds: float

    @property
    def largest(self) -> str:
        """The setting with the largest part."""
        return max(self.parts, key=self.parts.__getitem__)


def broken_budgets(settings: Settings) -> list[str]:
    """What takes longer than the shorter lease allows."""
    lease, seconds = shorter_lease(settings)
    most = allowed(settings)
    return [
        f"{lease}={seconds}: 80 % of it ({most:g} s) must hold {one.what}, which may take "
        f"{one.sum}{one.seconds:g} s, most of it by {one.largest}"
        for one in _budgets(settings)
        if one.seconds > most
    ]


def shorter_lease(settings: Settings) -> tuple[str, int]:
    """The lease that bounds an attempt."""
    leases = {
        "WORKFLOWS__LEASE_SECONDS": settings.workflows__lease_seconds,
        "JOBS__LEASE_SECONDS": settings.jobs__lease_seconds,
    }
    name = min(leases, key=leases.__getitem__)
    return name, leases[name]


def allowed(settings: Settings) -> float:
    """The seconds that the calls of an attempt may take together."""
    return round(SHARE * shorter_lease(settings)[1], 3)


def email_retries(settings: Settings) -> int:
    """How often an email that was not sent may be tried again in one attempt."""
    most = settings.workflows__outbound__retries
    bound = _not_sent(settings)
    if settings.workflows__outbound__email_send_timeout_seconds or bound is None:
        return most
    delay = settings.workflows__outbound__max_delay_seconds
    fitting = (
        retries
        for retries in range(most, 0, -1)
        if bound.seconds * (retries + 1) + delay * retries <= allowed(settings)
    )
    return next(fitting, 0)


def longest_calls(settings: Settings) -> dict[str, float]:
    """The seconds that one action may take, by its type; those that call nobody are left out."""
    slowest = _slowest_action(settings).seconds
    call = slowest / 2 - GRANT
    each = dict.fromkeys(("Webhook", "Sms", "RevalidateCache"), call)
    return {**each, "Request": slowest, "Email": _longest_email(settings)}


def _longest_email(settings: Settings) -> float:
    if limit := settings.workflows__outbound__email_send_timeout_seconds:
        return limit
    retries, bound = email_retries(settings), _not_sent(settings)
    delay = settings.workflows__outbound__max_delay_seconds
    return 0 if bound is None else bound.seconds * (retries + 1) + delay * retries


def _budgets(settings: Settings) -> list[Budget]:
    found = [_slowest_action(settings)]
    if limit := settings.workflows__outbound__email_send_timeout_seconds:
        name = f"{OUTBOUND}EMAIL_SEND_TIMEOUT_SECONDS"
        found.append(Budget("all tries of one email", {name: limit}, "", limit))
    if bound := _not_sent(settings):
        found.append(bound)
    return found


def _slowest_action(settings: Settings) -> Budget:
    """A request with a grant, then both once more: each with all its tries, and a body to read."""
    retries = settings.workflows__outbound__retries
    each = settings.workflows__outbound__attempt_timeout_seconds
    delay = settings.workflows__outbound__max_delay_seconds
    asked = settings.workflows__outbound__max_retry_after_seconds
    call = (retries + 1) * each + retries * (delay + asked)
    parts: dict[str, float] = {
        f"{OUTBOUND}ATTEMPT_TIMEOUT_SECONDS": (retries + 1) * each,
        f"{OUTBOUND}MAX_DELAY_SECONDS": retries * delay,
        f"{OUTBOUND}MAX_RETRY_AFTER_SECONDS": retries * asked,
    }
    written = f"{retries + 1} x {each:g} + {retries} x ({delay:g} + {asked})"
    return Budget(
        "the slowest action",
        parts,
        f"2 x ({GRANT:g} + {written} + {BODY:g}) = ",
        2 * (GRANT + call + BODY),
    )


def _not_sent(settings: Settings) -> Budget | None:
    """One try of an email that does not send it; None without a provider."""
    what = "one try of an email that is not sent"
    match settings.email__provider:
        case "smtp":
            step = settings.email__smtp__timeout_seconds
            parts: dict[str, float] = {"EMAIL__SMTP__TIMEOUT_SECONDS": STEPS * step}
            return Budget(what, parts, f"{STEPS} x {step} = ", STEPS * step)
        case "resend":
            each = settings.email__resend__timeout_seconds
            return Budget(what, {"EMAIL__RESEND__TIMEOUT_SECONDS": each}, "", each)
        case "none":
            return None
