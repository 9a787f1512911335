"""The commands of a page, one after the other as a reader types them."""

import asyncio
import re
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = re.compile(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
END = "-- end of a block --"


class Page:
    """A page of the documents, and what its blocks of commands should show."""

    def __init__(self, name):
        self.text = (DOCS / name).read_text(encoding="utf-8")
        self._blocks = COMMANDS.findall(self.text)
        self.shows = [lines(text) for _, text in self._blocks]

    def last(self):
        """The page with the last of its blocks alone."""
        self._blocks, self.shows = self._blocks[-1:], self.shows[-1:]
        return self

    async def typed(self, before, folder, instead, seconds=100, times=1):
        """What each block shows, typed into one shell after these lines; errors are shown too."""
        script = "\n".join(f"{typed}\necho '{END}'" for typed, _ in self._blocks * times)
        for written, meant in instead.items():
            script = script.replace(written, str(meant))
        async with asyncio.timeout(seconds):
            shell = await asyncio.create_subprocess_exec(
                *("bash", "-c", f"{before}\n{script}"),
                cwd=folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await shell.communicate()
        return [lines(one) for one in said.decode().split(END)][:-1]


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
