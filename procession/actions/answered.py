"""What the answer to a call means, or that there is none."""

from procession.engine.outcome import Failed, Outcome, Succeeded
from procession.outbound.answer import is_success
from procession.outbound.faults import AddressRefused, Fault


def answered(status: int, *, retryable: bool) -> Outcome:
    """A good status is a success; any other may be retryable, as its receiver uses it."""
    if is_success(status):
        return Succeeded(response_status=status)
    return Failed(f"HTTP {status}", retryable=retryable, response_status=status)


def unanswered(fault: Fault) -> Failed:
    """What a fault means where nothing is lost by another attempt."""
    return Failed(fault.told, retryable=not isinstance(fault, AddressRefused))
