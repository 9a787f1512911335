"""What `procession up` makes itself on its first start, and keeps beside its data.

Each is a file that only its owner may read, made whole or not at all, so that two starts at once
agree on it.
"""

import base64
import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path


def control_token() -> str:
    return secrets.token_urlsafe(32)


def secrets_keys() -> str:
    return f"local:{base64.b64encode(secrets.token_bytes(32)).decode()}"


def kept(folder: Path, name: str, make: Callable[[], str]) -> str:
    """What the file holds; made first, when there is none."""
    file = folder / name
    if not file.exists():
        with _written(folder, make()) as new, contextlib.suppress(FileExistsError):
            os.link(new, file)
    return file.read_text(encoding="utf-8").strip()


def keep(folder: Path, name: str, text: str) -> None:
    """Write the file, in place of what was there."""
    with _written(folder, text) as new:
        new.replace(folder / name)


@contextlib.contextmanager
def _written(folder: Path, text: str) -> Generator[Path]:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    file, name = tempfile.mkstemp(dir=folder)  # readable by its owner only
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(f"{text}\n")
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
