"""How far a try has come: what it means when its time runs out now, and what may still come."""

from contextvars import ContextVar

from procession.outbound.faults import ConnectionFailed, Fault, Timeout

HEAD = 102_400  # bytes of an answer's headers, with whatever interim answers come before it
LINES = 4_096  # of them: each takes its time to read, and all are read at a stretch


class Progress:
    """Of one try."""

    def __init__(self, *, again: bool = False) -> None:
        self.again = again  # whether what is lost may be sent once more
        self.fault: type[Fault] = ConnectionFailed
        self.head = HEAD  # bytes that may still come before the answer's headers have ended
        self.lines = LINES
        self.body = 0  # and after that
        self.answered = False

    @property
    def went(self) -> bool:
        """Whether the other side may have what it was sent."""
        return self.fault is Timeout


PROGRESS: ContextVar[Progress] = ContextVar("progress")
