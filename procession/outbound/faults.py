"""What may go wrong with a call that goes out.

A fault's text is its kind and, where a rule asks for it, the host: never more of the address, never
the words of a library.

    Fault
    ├── Timeout            no answer within the time of a try; a TimeoutError too
    ├── ConnectionFailed   nothing was sent: no connection opened
    ├── NameNotResolved    nothing was sent: the name has no address
    │   └── NameNotLookedUp  nobody was asked: too many look-ups hang already
    ├── TlsFailed          nothing was sent: no trusted channel
    ├── ConnectionLost     it was begun and broke off
    ├── AddressRefused     nothing was sent, nor ever will be: the guard forbids it
    ├── BreakerOpen        nothing was sent: the host has been failing
    └── AnswerTooLarge     it was answered with more than is read
"""


class Fault(Exception):  # noqa: N818  it happened to a call; whether that is an error is the action's word
    """The call has no answer."""

    is_by_host = False  # whether it is this host and no other that is the reason

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.host = host
        self.tries = 1
        self.status: int | None = None  # of an answer whose body was needed and did not come

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def told(self) -> str:
        """What an action's error says of it."""
        return str(self) if self.is_by_host else self.kind

    def __str__(self) -> str:
        return f"{self.kind}: {self.host}"


class Timeout(Fault, TimeoutError):  # noqa: N818
    """The time of a try ran out before the headers of an answer."""


class ConnectionFailed(Fault):
    """No connection opened, so nothing was sent."""


class NameNotResolved(Fault):
    """The name has no address."""


class NameNotLookedUp(NameNotResolved):
    """There was no room to look the name up, which says nothing of its host."""


class TlsFailed(Fault):
    """The other side could not prove its name, or does not speak TLS."""


class ConnectionLost(Fault):
    """The connection broke after the request began."""


class AddressRefused(Fault):
    """The guard refuses the host or one of its addresses."""

    is_by_host = True


class BreakerOpen(Fault):
    """The host has been failing, and rests."""

    is_by_host = True


class AnswerTooLarge(Fault):
    """The answer's body is longer than may be read."""
