"""What a call without an answer means, where nothing is lost by another attempt."""

from procession.engine.outcome import Failed
from procession.outbound.faults import AddressRefused, BreakerOpen, Fault


def unanswered(fault: Fault) -> Failed:
    """Of the address the error holds the host, and only where the host is the reason."""
    names_host = isinstance(fault, AddressRefused | BreakerOpen)
    error = str(fault) if names_host else fault.kind
    return Failed(error, retryable=not isinstance(fault, AddressRefused))
