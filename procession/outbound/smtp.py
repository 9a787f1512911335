"""Messages by a relay that the operator names, one connection each.

Every command is given by itself, so that it is known how far a message came.
"""

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address

from aiosmtplib import SMTP

from procession.outbound.faults import NameNotResolved
from procession.outbound.guard import literal
from procession.outbound.http import Client
from procession.outbound.mail import Mail, NotSent, Sending
from procession.outbound.mailbox import Mailbox
from procession.outbound.message import content_of, message_of
from procession.outbound.resolve import Resolve, Resolver
from procession.outbound.smtp_session import Relay, Security, Session, before_the_content
from procession.outbound.spans import Attributes
from procession.outbound.stream import EACH

WRITERS = 2  # threads of its own: the loop's few are anybody's, and an action may hang in them
LIGHT = 4_096  # signs of a message that take no time to speak of
STEPS = 3  # that bound what comes before the content, however many commands it takes


class Smtp:
    """Sends by the relay."""

    def __init__(
        self,
        relay: Relay,
        *,
        resolve: Resolve | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._relay = relay
        self._resolve = resolve or Resolver()
        secured = relay.security is not Security.NONE
        self._context = ssl_context or (ssl.create_default_context() if secured else None)
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="mail")

    @property
    def bound(self) -> timedelta:
        return STEPS * self._relay.step

    @property
    def told(self) -> Attributes:
        return {
            "network.protocol.name": "smtp",
            "server.address": self._relay.host,
            "server.port": self._relay.port,
        }

    async def send(self, sender: Mailbox, mail: Mail, client: Client, sending: Sending) -> None:
        """Hand the message over; raises MailFault."""
        sending.phase = "SMTP connect"
        content = await self._content(sender, mail)
        session: Session | None = None
        try:
            try:
                async with asyncio.timeout(self.bound.total_seconds()):
                    session = await self._connected(sending)
                    await session.begin(sender, mail)
            except TimeoutError:
                raise NotSent(sending.phase, "Timeout") from None
            await session.hand_over(content)
        finally:
            if session:
                session.end()

    async def _content(self, sender: Mailbox, mail: Mail) -> bytes:
        """The message as it goes over the wire; a long one takes seconds, and holds nobody up."""

        def written() -> bytes:
            return content_of(message_of(sender, mail))

        names = [mail.to.name, mail.reply_to.name if mail.reply_to else ""]
        size = sum(map(len, (mail.subject, mail.html, mail.text, *names)))
        if size <= LIGHT:
            return written()
        return await asyncio.get_running_loop().run_in_executor(self._writers, written)

    async def _connected(self, sending: Sending) -> Session:
        relay = self._relay
        with before_the_content(sending):
            async with asyncio.timeout(relay.step.total_seconds()):
                sock = await self._dialled()
            address = ip_address(sock.getsockname()[0].partition("%")[0])
            smtp = SMTP(
                hostname=relay.host,
                sock=sock,
                use_tls=relay.security is Security.TLS,
                start_tls=False,
                tls_context=self._context,
                timeout=relay.step.total_seconds(),
                # an address, in the form for it: a container's name is known to nobody
                local_hostname=f"[IPv6:{address}]" if address.version == 6 else f"[{address}]",  # noqa: PLR2004
            )
            session = Session(relay, smtp, sending)
            await smtp.connect()
        return session

    async def _dialled(self) -> socket.socket:
        """A connection to one of the relay's addresses; raises OSError or NameNotResolved."""
        host, port = self._relay.host, self._relay.port
        addresses = [host] if literal(host) else await self._resolve(host)
        if not addresses:
            raise NameNotResolved(host)
        for address in addresses[:-1]:
            with suppress(OSError):
                async with asyncio.timeout(EACH):
                    return await _dial(address, port)
        return await _dial(addresses[-1], port)


async def _dial(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock
