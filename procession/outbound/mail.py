"""One message to one address: what it is, what may go wrong, and when it is sent once more.

Nobody can call a message back, and a second one is a nuisance to a person. So it is tried again
only while it cannot have left; whatever else went wrong says whether it may have.

    MailFault
    ├── NotSent   it cannot have left
    ├── Refused   the other side would not have it
    └── InDoubt   it may have left: nobody said
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from procession.outbound.http import Client
from procession.outbound.mailbox import Mailbox
from procession.outbound.progress import Progress
from procession.outbound.retry import Jitter, Sleep, Tries
from procession.outbound.spans import Attributes, SpanKind, span


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What is to be told to whom."""

    to: Mailbox
    subject: str
    html: str
    text: str = ""
    reply_to: Mailbox | None = None


class MailFault(Exception):  # noqa: N818  it happened to a message; what it means is the action's word
    """It was not accepted. Names the phase and what came of it, never the relay's words."""

    def __init__(self, phase: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"{phase}: {reason}")
        self.status = status  # of an answer by HTTP


class NotSent(MailFault):
    """It cannot have left. After this long it may be tried again, when the other side says so."""

    retry_after: timedelta | None = None


class Refused(MailFault):
    """It was read and not taken."""


class InDoubt(MailFault):
    """It went, or may have, and no answer came."""


class Sending(Progress):
    """How far a try has come: what it means when the time for all of them runs out now."""

    phase = "Email"


class Provider(Protocol):
    """A way for messages to leave."""

    @property
    def bound(self) -> timedelta | None:
        """The longest time of a try that does not send it; None when there is no knowing."""
        ...

    @property
    def told(self) -> Attributes:
        """What a trace has of the other side, where no call over HTTP tells it."""
        ...

    async def send(self, sender: Mailbox, mail: Mail, client: Client, sending: Sending) -> None:
        """Send it once; raises MailFault."""
        ...


@dataclass(frozen=True, slots=True)
class Mailer:
    """Messages of one sender, by one provider."""

    provider: Provider
    sender: Mailbox
    tries: Tries = field(default_factory=Tries)
    limit: timedelta | None = None  # for all tries and the waits between them
    sleep: Sleep = asyncio.sleep

    async def send(self, mail: Mail, client: Client) -> None:
        """Send it, and again what cannot have left; raises MailFault."""
        one = _Delivery(self, mail, client)
        with span("send email", SpanKind.CLIENT, attributes=self.provider.told) as traced:
            try:
                async with asyncio.timeout(self.limit.total_seconds() if self.limit else None):
                    await one.tried()
            except TimeoutError:
                kind = InDoubt if one.sending.went else NotSent
                raise kind(one.sending.phase, "Timeout") from None
            finally:
                traced.set_attribute("procession.resend_count", one.tries - 1)


class _Delivery:
    """One message on its way."""

    def __init__(self, mailer: Mailer, mail: Mail, client: Client) -> None:
        self._mailer, self._mail, self._client = mailer, mail, client
        self._jitter = Jitter(mailer.tries)
        self.sending = Sending()
        self.tries = 0

    async def tried(self) -> None:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(1 + self._mailer.tries.retries),
            retry=retry_if_exception(self._again),
            wait=self._pause,
            sleep=self._mailer.sleep,
            reraise=True,
        )
        await retrying(self._once)

    async def _once(self) -> None:
        self.sending = Sending()
        self.tries += 1
        try:
            mailer = self._mailer
            await mailer.provider.send(mailer.sender, self._mail, self._client, self.sending)
        except NotSent:
            self.sending = Sending()  # what is waited for now has not left
            raise

    def _again(self, error: BaseException) -> bool:
        if not isinstance(error, NotSent):
            return False
        asked = error.retry_after
        return asked is None or asked <= self._mailer.tries.longest_retry_after

    def _pause(self, _: RetryCallState) -> float:
        return self._jitter.next()
