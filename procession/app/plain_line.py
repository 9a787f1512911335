"""What `procrastinate --app procession.app.worker.jobs worker` imports of us first.

That command imports the rest in its running loop, which notes Ctrl-C meanwhile and hands it to
whoever waits next: a library, which would wait for ever. Nothing has begun by then, so a stop ends
the process at once, until the worker takes that into its own hands.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from procession.app.interrupt import INTERRUPTED, end, stops


def is_plain(line: list[str]) -> bool:
    """Whether the command line is that one, also as `python -m procrastinate`."""
    command = Path(line[0])
    return "procrastinate" in {command.stem, command.parent.name} and "worker" in line[1:]


def begin() -> None:
    """Let a stop end the process, and end it where one was noted already."""
    for one in stops():
        signal.signal(one, end)
    with suppress(RuntimeError):  # nobody's loop runs
        task = asyncio.current_task()
        if task and task.cancelling():
            os._exit(INTERRUPTED)


if is_plain(sys.argv):
    begin()
