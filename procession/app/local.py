"""A Postgres for one machine: started when the first asks for it, stopped when the last lets go.

Whoever uses a data folder holds a shared lock on `<folder>.users`, which the kernel drops however
the process ends. So a killed process leaves a server that the next one takes over, and the last to
leave stops it. Starting and stopping happen under `<folder>.lock`, by one process at a time.

The server listens on a socket in its own folder of mode 700 and nowhere else, so it trusts.
"""

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from procession.app import binaries
from procession.app.binaries import LocalError

__all__ = ["LocalError", "serve"]

LONGEST_SOCKET = 107  # bytes of a socket's path that the kernel takes
PATIENCE = 60.0  # seconds for a server to start or to stop; recovery after a kill takes some
STARTS = 5  # the processes of a killed server may hold its memory for a moment longer


@dataclass(frozen=True, slots=True)
class Server:
    """A data folder, the programs that serve it, and as whom."""

    data: Path
    programs: Path
    user: pwd.struct_passwd | None

    @property
    def log(self) -> Path:
        return self.data.with_name(f"{self.data.name}.log")

    def run(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a program, in a session of its own: a Ctrl-C at the terminal is not for it."""
        with self.log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  programs that we found
                [self.programs / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={name: one for name, one in os.environ.items() if not name.startswith("PG")},
                start_new_session=True,
                user=self.user.pw_uid if self.user else None,
                group=self.user.pw_gid if self.user else None,
                extra_groups=[] if self.user else None,
            )

    def own(self, folder: Path) -> None:
        if self.user:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)

    def refusal(self, what: str) -> LocalError:
        last = self.log.read_text(errors="replace").splitlines()[-5:]
        return LocalError("\n".join([f"{what} {self.log} ends in:", *last]))


@contextlib.contextmanager
def serve(data: Path, options: Sequence[str] = ()) -> Generator[str]:
    """The address of a server on this folder, for as long as the block lasts."""
    data = data.absolute()
    data.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _opened(data, "users") as users:
        with _alone(data):
            fcntl.flock(users, fcntl.LOCK_SH)
            server = _server(data)
            socket = _running(server.data)
            child = None if socket else _start(server, options)
            socket = socket or Path(_postmaster(server.data)[4])
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(socket), safe='')}&port=5432"
        finally:
            with _alone(data):
                _leave(server, child, users)


@contextlib.contextmanager
def _opened(data: Path, name: str) -> Generator[int]:
    """A file beside the data folder, to lock. No child inherits it."""
    file = os.open(data.with_name(f"{data.name}.{name}"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _alone(data: Path) -> Generator[None]:
    with _opened(data, "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    """Whether this process is a Postgres: numbers are used again, above all in containers."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/comm").read_text().strip() == "postgres"
    except ProcessLookupError:
        return False
    except (PermissionError, FileNotFoundError):  # another user's; no /proc on this system
        return True


def _running(data: Path) -> Path | None:
    """The socket of the server that runs already. One that starts or stops is waited for."""

    def decided() -> bool:
        lines = _postmaster(data)
        return not lines or not _lives(int(lines[0])) or _is_ready(lines)

    if not _wait(decided):
        raise LocalError(f"The Postgres on {data} has been starting or stopping for too long.")
    lines = _postmaster(data)
    if lines and _lives(int(lines[0])):
        return Path(lines[4])
    (data / "postmaster.pid").unlink(missing_ok=True)
    return None


def _is_ready(lines: list[str]) -> bool:
    return len(lines) > 7 and lines[7].strip() == "ready"  # noqa: PLR2004  the eighth says it


def _start(server: Server, options: Sequence[str]) -> "subprocess.Popen[bytes]":
    wanted, file = binaries.major(server.programs), server.data / "PG_VERSION"
    if not file.exists():
        _make(server)
    if (kept := file.read_text().strip()) != str(wanted):
        raise LocalError(
            f"{server.data} was made by Postgres {kept} and this is {wanted}. "
            "Move the folder away to begin anew, or dump and load it with the old programs."
        )
    socket = _socket_folder(server)
    for _ in range(STARTS):
        child = server.run(
            *("postgres", "-D", str(server.data), "-h", "", "-k", str(socket), "-p", "5432"),
            *options,
        )
        ended = _wait(lambda child=child: child.poll() is not None or _is_up(server.data, child))
        if ended and child.returncode is None:
            return child
        if not ended:
            child.send_signal(signal.SIGQUIT)
        child.wait()
        time.sleep(0.2)
    raise server.refusal("Postgres did not start.")


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


def _leave(server: Server, child: "subprocess.Popen[bytes] | None", users: int) -> None:
    """Stop the server, unless somebody else uses it still."""
    fcntl.flock(users, fcntl.LOCK_UN)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if child:
            child.returncode = 0  # it is for the last one to stop, and not ours to wait for
        return
    lines = _postmaster(server.data)
    if lines and _lives(int(lines[0])):
        process = int(lines[0])
        os.kill(process, signal.SIGINT)
        gone = _wait(lambda: (child and child.poll() is not None) or not _postmaster(server.data))
        if not gone:
            os.kill(process, signal.SIGQUIT)
        if Path(lines[4]) != server.data:
            shutil.rmtree(lines[4], ignore_errors=True)
    if child:
        child.wait()


def _wait(until: Callable[[], bool | None]) -> bool:
    """Whether it came true within our patience."""
    end = time.monotonic() + PATIENCE
    while not until():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
