"""What the answer to a call means, or that there is none."""

from procession.engine.outcome import Failed, Outcome, Succeeded
from procession.outbound.answer import is_success
from procession.outbound.faults import AddressRefused, BreakerOpen, Fault


def answered(status: int, *, retryable: bool) -> Outcome:
    """A good status is a success; any other may be retryable, as its receiver uses it."""
    if is_success(status):
        return Succeeded(response_status=status)
    return Failed(f"HTTP {status}", retryable=retryable, response_status=status)


def unanswered(fault: Fault) -> Failed:
    """What a fault means where nothing is lost by another attempt.

    Of the address the error holds the host, and only where the host is the reason.
    """
    names_host = isinstance(fault, AddressRefused | BreakerOpen)
    error = str(fault) if names_host else fault.kind
    return Failed(error, retryable=not isinstance(fault, AddressRefused))
