"""A conversation with a relay: which command comes when, and what each reply means.

Before DATA nothing has left, from DATA on the message may have, and once the relay has taken the
content nothing that happens can change it. A relay's words are dropped; the code of a reply is not.
What it says unasked, behind a reply, would be taken for the reply to what comes next: a bad reply.
"""

import ssl
from asyncio import WriteTransport
from collections.abc import Awaitable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import cast

from aiosmtplib import (
    SMTP,
    SMTPConnectError,
    SMTPException,
    SMTPHeloError,
    SMTPResponseException,
    SMTPServerDisconnected,
)
from aiosmtplib.response import SMTPResponse

from procession.outbound.faults import NameNotResolved, Timeout
from procession.outbound.mail import InDoubt, Mail, MailFault, NotSent, Refused, Sending
from procession.outbound.mailbox import Mailbox

GO_AHEAD = 354
REFUSALS = range(400, 600)
ACCEPTED = range(200, 300)
REPLIES = range(100, 600)
NO_CODE = -1
REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (TimeoutError, "Timeout"),
    (NameNotResolved, "NameNotResolved"),
    (ssl.SSLError, "TlsFailed"),
    ((SMTPServerDisconnected, ConnectionResetError, ConnectionAbortedError), "ConnectionLost"),
    (OSError, "ConnectionFailed"),
)


class Security(StrEnum):
    """What the connection to the relay must be."""

    STARTTLS = "starttls"  # secured before anything is said, or not used
    TLS = "tls"  # secured from the first byte
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Where messages are handed over."""

    host: str
    port: int = 587
    security: Security = Security.STARTTLS
    username: str = ""  # blank: no login
    password: str = field(default="", repr=False)
    step: timedelta = timedelta(seconds=30)


class Session:
    """A conversation with the relay."""

    def __init__(self, relay: Relay, smtp: SMTP, sending: Sending) -> None:
        self._relay, self._smtp, self._sending = relay, smtp, sending
        self._asked = False  # and no answer has come

    async def begin(self, sender: Mailbox, mail: Mail) -> None:
        """All that comes before the content."""
        with before_the_content(self._sending):
            self._hear_no_more()  # than the greeting
        await self._greet()
        if self._relay.security is Security.STARTTLS:
            with self._phase("STARTTLS"):
                await self._smtp.starttls()
            await self._greet()
        if self._relay.username:
            with self._phase("login"):
                await self._smtp.login(self._relay.username, self._relay.password)
        with self._phase("MAIL FROM"):
            await self._smtp.mail(sender.address)
        with self._phase("RCPT TO"):
            await self._smtp.rcpt(mail.to.address)

    async def _greet(self) -> None:
        with self._phase("EHLO"):
            try:
                await self._smtp.ehlo()
            except SMTPHeloError:
                if not self._smtp.is_connected:
                    raise
                await self._smtp.helo()

    @contextmanager
    def _phase(self, name: str) -> Generator[None]:
        self._sending.phase = f"SMTP {name}"
        with before_the_content(self._sending), self._question():
            yield
            self._hear_no_more()

    @contextmanager
    def _question(self) -> Generator[None]:
        self._asked = True
        try:
            yield
        except SMTPResponseException:
            self._asked = False
            raise
        self._asked = False

    async def hand_over(self, content: bytes) -> None:
        """DATA and the content; returns once the relay has taken it."""
        self._sending.fault = Timeout  # from here on it may have left
        began = await self._said("DATA", self._begun())
        if began != GO_AHEAD:
            raise self._refusal(began)
        ended = await self._said("content", self._given(content))
        if ended not in ACCEPTED:
            raise self._refusal(ended)

    async def _begun(self) -> SMTPResponse:
        reply = await self._smtp.execute_command(b"DATA")
        if reply.code == GO_AHEAD:
            self._hear_no_more()
        return reply

    async def _given(self, content: bytes) -> SMTPResponse:
        protocol = self._smtp.protocol
        if protocol is None:
            raise SMTPServerDisconnected("")
        protocol.write(content)
        return await protocol.read_response(self._relay.step.total_seconds())

    def _hear_no_more(self) -> None:
        """Raise what a bad reply does, if something is behind the last one."""
        protocol = self._smtp.protocol
        if protocol is not None and protocol._buffer:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  nobody else knows
            raise SMTPResponseException(NO_CODE, "")

    async def _said(self, phase: str, question: Awaitable[SMTPResponse]) -> int:
        """The code of the reply; raises InDoubt when there is none."""
        self._sending.phase = f"SMTP {phase}"
        try:
            with self._question():
                return (await question).code
        except (SMTPException, OSError) as error:
            raise InDoubt(self._sending.phase, _reason(error)) from None

    def _refusal(self, code: int) -> MailFault:
        """What a reply that is not the hoped-for one means."""
        kind = Refused if code in REFUSALS else InDoubt
        return kind(self._sending.phase, str(code))

    def end(self) -> None:
        """Leave. Nothing is waited for: what was taken stays taken."""
        protocol, transport = self._smtp.protocol, self._smtp.transport
        if protocol is None or transport is None:
            return
        if self._asked:
            cast("WriteTransport", transport).abort()
        else:
            with suppress(SMTPException):
                protocol.write(b"QUIT\r\n")
        self._smtp.close()


@contextmanager
def before_the_content(sending: Sending) -> Generator[None]:
    """While this lasts, nothing has left."""
    try:
        yield
    except (SMTPException, OSError, NameNotResolved) as error:
        raise NotSent(sending.phase, _reason(error)) from None


def _reason(error: Exception) -> str:
    """The reply's code, or the kind of fault."""
    if isinstance(error, SMTPResponseException):
        return str(error.code) if error.code in REPLIES else "BadReply"
    if isinstance(error, SMTPConnectError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    for kinds, name in REASONS:
        if isinstance(error, kinds):
            return name
    return "NotOffered"  # what we need of the relay
