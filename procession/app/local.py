"""A Postgres for one machine: started when the first asks for it, stopped when the last lets go.

Whoever uses a data folder holds a shared lock on `<folder>.users`, which the kernel drops however
the process ends. So a killed process leaves a server that the next one takes over, and the last to
leave stops it. Starting and stopping happen under `<folder>.lock`, by one process at a time.

The server listens on a socket in its own folder of mode 700 and nowhere else, so it trusts.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from urllib.parse import quote

from procession.app import binaries
from procession.app.binaries import LocalError, Server

__all__ = ["Local", "LocalError", "alone", "serve"]

LONGEST_SOCKET = 107  # bytes of a socket's path that the kernel takes
PATIENCE = 60.0  # seconds for a server to start or to stop; recovery after a kill takes some
STARTS = 5  # the processes of a killed server may hold its memory for a moment longer
READY = 8  # the line of postmaster.pid that says it; the fifth names the socket's folder


@contextlib.contextmanager
def serve(data: Path, options: Sequence[str] = ()) -> Generator["Local"]:
    """A server on this folder, for as long as the block lasts."""
    local = Local(data.absolute(), options)
    try:
        local.enter()
        yield local
    finally:
        local.leave()


class Local:
    """One use of a data folder's server."""

    def __init__(self, data: Path, options: Sequence[str]) -> None:
        self._data, self._options = data, options
        self._users: int | None = None
        self._server: Server | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def enter(self) -> None:
        """Use the server that runs, or start one."""
        self._data.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._users = _open(self._data, "users")
        with alone(self._data):
            fcntl.flock(self._users, fcntl.LOCK_SH)
            self._server = _server(self._data)
            if not _runs(self._server.data):
                self._start(self._server)

    @property
    def url(self) -> str:
        """Where it is to be reached."""
        assert self._server, "it has been entered"
        folder = quote(_postmaster(self._server.data)[4], safe="")
        return f"postgresql://postgres@/postgres?host={folder}&port=5432"

    def leave(self) -> None:
        """Stop the server, unless somebody else uses it still. A second time does nothing."""
        if self._users is None:
            return
        with alone(self._data):
            fcntl.flock(self._users, fcntl.LOCK_UN)
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._child:
                    self._child.returncode = 0  # the last will stop it: it is not ours to wait for
            else:
                self._stop()
            os.close(self._users)
            self._users = None

    @property
    def has_ended(self) -> bool:
        """Whether the server that was started here has ended by itself."""
        return self._child is not None and self._child.poll() is not None

    def restart(self) -> None:
        """Start the server again that has ended."""
        with alone(self._data):
            if self._child:
                self._child.wait()
            if self._server and not _runs(self._server.data):
                self._start(self._server)

    def _start(self, server: Server) -> None:
        _prepare(server)
        socket = _socket_folder(server)
        where = ("-D", str(server.data), "-h", "", "-k", str(socket), "-p", "5432")
        for _ in range(STARTS):
            self._child = child = server.run("postgres", *where, *self._options)
            _wait(lambda child=child: child.poll() is not None or _is_up(server.data, child))
            if child.returncode is None and _is_up(server.data, child):
                return
            if child.returncode is None:
                child.send_signal(signal.SIGQUIT)
            child.wait()
            time.sleep(0.2)
        raise server.refusal("Postgres did not start.")

    def _stop(self) -> None:
        lines = _postmaster(self._server.data) if self._server else []
        if self._child and self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
            self._child.wait()
        elif self._server and lines and _lives(int(lines[0])):
            os.kill(int(lines[0]), signal.SIGINT)
            if not _wait(lambda: not lines or not _lives(int(lines[0]))):
                os.kill(int(lines[0]), signal.SIGQUIT)
        if self._server and lines and Path(lines[4]) != self._server.data:
            shutil.rmtree(lines[4], ignore_errors=True)


def _open(data: Path, name: str) -> int:
    """A file beside the data folder, to lock. No child inherits it."""
    return os.open(data.with_name(f"{data.name}.{name}"), os.O_RDWR | os.O_CREAT, 0o600)


@contextlib.contextmanager
def alone(data: Path) -> Generator[None]:
    """Keep every other process out that asks for the same."""
    file = _open(data, "lock")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _server(data: Path) -> Server:
    programs, user = binaries.find(), binaries.another_user()
    if user:
        programs = binaries.within_reach(user, programs)
        if not data.exists() and not binaries.reaches(user, data.parent):
            data.unlink(missing_ok=True)
            data.symlink_to(binaries.shared(data))
    return Server(data.resolve(), programs, user)


def _postmaster(data: Path) -> list[str]:
    """The lines in which a server says how it is: its process first, its readiness last."""
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _lives(process: int) -> bool:
    """Whether this process is a Postgres: numbers are used again, above all in containers.

    One that has ended is none, though whoever started it has not taken notice yet.
    """
    try:
        os.kill(process, 0)
        _, name, state = re.split(r"\((.*)\) ", Path(f"/proc/{process}/stat").read_text())
        return name == "postgres" and state[0] != "Z"
    except ProcessLookupError:
        return False
    except (PermissionError, FileNotFoundError):  # another user's; no /proc on this system
        return True


def _runs(data: Path) -> bool:
    """Whether a server runs on it. One that starts or stops just now is waited for."""

    def decided() -> bool:
        lines = _postmaster(data)
        return not lines or not _lives(int(lines[0])) or _is_ready(lines)

    if not _wait(decided):
        raise LocalError(f"The Postgres on {data} has been starting or stopping for too long.")
    lines = _postmaster(data)
    if lines and _lives(int(lines[0])):
        return True
    (data / "postmaster.pid").unlink(missing_ok=True)
    return False


def _is_ready(lines: list[str]) -> bool:
    return len(lines) >= READY and lines[READY - 1].strip() == "ready"


def _prepare(server: Server) -> None:
    """A folder of this version's, made when there is none."""
    wanted, file = binaries.major(server.programs), server.data / "PG_VERSION"
    if not file.exists():
        _make(server)
    if (kept := file.read_text().strip()) != str(wanted):
        raise LocalError(
            f"{server.data} was made by Postgres {kept} and this is {wanted}. "
            "Move the folder away to begin anew, or dump and load it with the old programs."
        )


def _is_up(data: Path, child: "subprocess.Popen[bytes]") -> bool:
    lines = _postmaster(data)
    return lines[:1] == [str(child.pid)] and _is_ready(lines)


def _make(server: Server) -> None:
    """A new data folder, made aside: one that is half made is never served."""
    for left in server.data.parent.glob(f"{server.data.name}.new.*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{server.data.name}.new.", dir=server.data.parent))
    server.own(folder)
    arguments = ("-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-U", "postgres")
    if server.run("initdb", "-D", str(folder), *arguments).wait():
        raise server.refusal("Postgres could not make its folder.")
    folder.rename(server.data)


def _socket_folder(server: Server) -> Path:
    if len(os.fsencode(server.data / ".s.PGSQL.5432.lock")) <= LONGEST_SOCKET:
        return server.data
    folder = Path(tempfile.mkdtemp(prefix="procession-", dir="/tmp"))
    server.own(folder)
    return folder


def _wait(until: Callable[[], bool | None]) -> bool:
    """Whether it came true within our patience."""
    end = time.monotonic() + PATIENCE
    while not until():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
