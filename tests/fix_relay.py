"""A relay on 127.0.0.1 that takes messages, and at each phase does what a test has told it."""

import asyncio
import ssl
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from aiosmtpd.smtp import SMTP, AuthResult
from fix_actions import an_attempt
from fix_receiver import answers

from procession.actions.email import Email
from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.outbound.mail import Mailer
from procession.outbound.mailbox import mailbox
from procession.outbound.retry import Tries
from procession.outbound.smtp import Smtp
from procession.outbound.smtp_session import Relay as Named
from procession.outbound.smtp_session import Security

GIVEN = {"To": "Ann <ann@example.org>", "Subject": "Hello", "Body": "<p>Hello</p>"}
STEP = timedelta(seconds=5)
MOMENT = timedelta(milliseconds=150)
PHASES = ("EHLO", "HELO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "QUIT")


def drop(server):
    """Cut the connection."""
    server.transport.abort()


async def hang(_server):
    await asyncio.Event().wait()


def reply(text):
    async def act(server):
        server.transport.write(text.encode("latin-1") + b"\r\n")

    return act


def later(seconds):
    """Do what is asked, but not at once."""

    async def act(_server):
        await asyncio.sleep(seconds)
        return True

    return act


@dataclass(frozen=True)
class Taken:
    sender: str
    recipients: list[str]
    content: bytes
    secured: bool
    login: tuple[str, str] | None


class Session(SMTP):
    """Asks the script before it answers a command."""

    def __init__(self, relay, **options):
        super().__init__(relay, hostname="relay.example.com", **options)
        self.relay = relay
        self.login = None


def _scripted(phase):
    usual = getattr(SMTP, f"smtp_{phase}")

    async def command(self, arg):
        if await self.relay.acts(phase, self, arg):
            await usual(self, arg)

    command.__dict__.update(usual.__dict__)
    return command


for one in PHASES:
    setattr(Session, f"smtp_{one}", _scripted(one))


@dataclass
class Relay:
    """Takes every message, unless a test has said otherwise of a phase, in its order."""

    port: int = 0
    taken: list[Taken] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    connections: int = 0
    script: dict[str, deque] = field(default_factory=lambda: defaultdict(deque))
    users: dict[str, str] = field(default_factory=dict)
    left: asyncio.Event = field(default_factory=asyncio.Event)  # somebody said goodbye

    async def start(self, *, tls: ssl.SSLContext | None = None, **options):
        loop = asyncio.get_running_loop()

        def session():
            self.connections += 1
            return Session(self, loop=loop, authenticator=self._knows, **options)

        self._server = await loop.create_server(session, "127.0.0.1", self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.close()

    def will(self, phase, *acts):
        self.script[phase].extend(acts)

    async def acts(self, phase, server, arg):
        """Do what is written, and say whether the usual is to be done."""
        self.commands.append(phase if arg is None else f"{phase} {arg}")
        if phase == "QUIT":
            self.left.set()
        if not self.script[phase]:
            return True
        act = self.script[phase].popleft()
        done = act(server)
        return await done if asyncio.iscoroutine(done) else done

    def _knows(self, server, session, envelope, mechanism, auth_data):
        login = (auth_data.login.decode(), auth_data.password.decode())
        server.login = login
        return AuthResult(success=self.users.get(login[0]) == login[1], handled=False)

    async def handle_DATA(self, server, session, envelope):  # noqa: N802  aiosmtpd's name
        self.commands.append("content")
        if self.script["content"]:
            act = self.script["content"].popleft()
            if isinstance(act, str):
                return act
            done = act(server)
            with suppress(AttributeError):  # aiosmtpd answers whoever has gone
                return (await done if asyncio.iscoroutine(done) else done) or "250 OK"
        self.taken.append(
            Taken(
                envelope.mail_from,
                envelope.rcpt_tos,
                envelope.original_content,
                server.session.ssl is not None
                or server.transport.get_extra_info("sslcontext") is not None,
                server.login,
            )
        )
        return "250 2.0.0 Queued as hunter2"


@pytest.fixture
async def make_relay():
    """Starts relays, and stops them."""
    made = []

    async def make(**options):
        made.append(await Relay().start(**options))
        return made[-1]

    yield make
    for one in made:
        await one.stop()


@pytest.fixture
async def relay(make_relay):
    """Speaks without TLS, and asks for no login."""
    return await make_relay()


@pytest.fixture
def relay_tls(authority):
    """Proves to be relay.example.com, and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("relay.example.com").configure_cert(context)
    return context


async def at_once(_seconds):
    await asyncio.sleep(0)


@pytest.fixture
def email(make_client):
    """Performs an Email, and says what came of it."""

    async def perform_it(provider, parameters=None, *, tries=None, limit=None, **changes):
        sleep, client = changes.pop("sleep", at_once), changes.pop("client", None)
        tries = tries or Tries(retries=0)
        mailer = Mailer(provider, mailbox("Desk <desk@example.com>"), tries, limit, sleep)
        performed = await perform(
            Registry({"Email": Email(mailer)}),
            an_attempt("Email", GIVEN | (parameters or {}), **changes),
            client=client or make_client(),
            limit=timedelta(seconds=20),
        )
        return performed.outcome

    return perform_it


@pytest.fixture
def by(trust):
    """The provider that uses a relay of a test, named relay.example.com."""

    def make(relay, security=Security.NONE, *, step=STEP, host=None, resolve=None, **login):
        return Smtp(
            Named(
                host=host or "relay.example.com",
                port=relay if isinstance(relay, int) else relay.port,
                security=security,
                step=step,
                **login,
            ),
            resolve=resolve or answers(relay_example_com=["127.0.0.1"]),
            ssl_context=trust,
        )

    return make
