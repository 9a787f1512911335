"""The commands as processes: started, watched line by line, stopped or killed."""

import asyncio
import base64
import contextlib
import os
import signal
import socket
import sys
import uuid
from pathlib import Path

import pytest

from procession.app.environment import PREFIXES
from procession.app.local import serve

KEYS = f"tests:{base64.b64encode(bytes(range(32))).decode()}"  # the ring of fix_api
COMMANDS = Path(sys.executable).parent
OURS = (*PREFIXES, "DATABASE_URL", "CONTROL_TOKEN", "HOST", "PORT", "SHUTDOWN", "PROCRASTINATE_")


class Running:
    """A command that runs, or has run."""

    def __init__(self, process):
        self.process = process
        self.said = []
        self._news = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def _read(self):
        async for line in self.process.stdout:
            self.said.append(line.decode().rstrip())
            self._news.put_nowait(self.said[-1])
        self._news.put_nowait(None)

    async def until(self, text, seconds=60):
        """The next line that holds this text."""
        async with asyncio.timeout(seconds):
            while (line := await self._news.get()) is not None:
                if text in line:
                    return line
        raise AssertionError("\n".join(self.said))

    def send(self, number):
        self.process.send_signal(number)

    async def ended(self, seconds=60):
        """Its exit status."""
        async with asyncio.timeout(seconds):
            await self._reading
            return await self.process.wait()

    async def stop(self):
        self.send(signal.SIGTERM)
        return await self.ended()

    async def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        return await self.ended()


@pytest.fixture
async def command():
    """Starts commands with nothing set but what is given; kills what is left."""
    started = []

    async def start(name, *arguments, **variables):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        process = await asyncio.create_subprocess_exec(
            COMMANDS / name,
            *map(str, arguments),
            env=inherited | {k: str(v) for k, v in variables.items()},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
        )
        started.append(Running(process))
        return started[-1]

    yield start
    for one in started:
        await one.kill()


@pytest.fixture
def home():
    """A data folder for `procession up`; a server that is left on it is stopped."""
    folder = Path(os.environ["PROCESSION_TEST_FOLDER"]) / uuid.uuid4().hex
    yield folder
    if postmaster(folder / "postgres"):
        with serve(folder / "postgres"):
            pass  # the last to leave stops it


@pytest.fixture
def port():
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


def postmaster(data):
    """The process that serves the data folder, or None."""
    try:
        process = int((data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(process, 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return process
