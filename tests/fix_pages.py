"""The commands of a page, one after the other as a reader types them."""

import asyncio
import re
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = re.compile(
    r"^(?P<indent> *)```sh\n(?P<typed>.*?)^(?P=indent)```\n"
    r"(?:\n(?P=indent)```text\n(?P<shown>.*?)^(?P=indent)```\n)?"
    r"(?P<why>\n(?P=indent)\*Not typed by the tests: [^*]+\*\n)?"
    r"|^    \$ (?P<line>[^\n]*)\n(?P<says>(?:    [^\n]*\n)*)",
    re.DOTALL | re.MULTILINE,
)
END = "-- end of a block --"
MISHAPS = re.compile(r"Traceback|command not found|No such file|^usage: |syntax error")


class Page:
    """A page of the documents, and what its blocks of commands should show.

    A block that a line below it excuses, with a reason that readers see, is not among them.
    """

    def __init__(self, name):
        self.text = (DOCS / name).read_text(encoding="utf-8")
        found = [one for one in COMMANDS.finditer(self.text) if not one["why"]]
        self.commands = [dedent(one["typed"] or f"{one['line']}\n") for one in found]
        self.shows = [lines(dedent(one["shown"] or one["says"] or "")) for one in found]

    async def typed(self, before, folder, instead, seconds=100, times=1):
        """What each block shows, typed into one shell after these lines; errors are shown too."""
        script = "\n".join(f"{typed}\necho '{END}'" for typed in self.commands * times)
        for written, meant in instead.items():
            assert written in script, f"{written} is no longer on the page"
            script = script.replace(written, str(meant))
        async with asyncio.timeout(seconds):
            shell = await asyncio.create_subprocess_exec(
                *("bash", "-c", f"{before}\n{script}"),
                cwd=folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await shell.communicate()
        shown = [lines(one) for one in said.decode().split(END)][:-1]
        assert len(shown) == len(self.commands) * times, said.decode()
        mishaps = [line for block in shown for line in block if MISHAPS.search(line)]
        assert mishaps == [], said.decode()
        return shown


@asynccontextmanager
async def receiver(folder):
    """The receiver of docs/run-lifecycle.md; its port. What it says is kept in the file `said`."""
    (code,) = re.findall(r"```python\n(.*?)```", Page("run-lifecycle.md").text, re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    (folder / "receiver.py").write_text(code.replace("9000", str(port)))
    with (folder / "said").open("w") as said:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "receiver.py", cwd=folder, stdout=said
        )
    try:
        yield port
    finally:
        process.kill()
        await process.wait()


def lines(text):
    return [line.rstrip() for line in text.strip("\n").splitlines()]
