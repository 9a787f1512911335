"""The commands of a page, one after the other as a reader types them."""

import asyncio
import re
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

    async def typed(self, before, folder, instead, seconds=100, times=1):
        """What each block shows, typed into one shell after these lines; errors are shown too."""
        script = "\n".join(f"{typed}\necho '{END}'" for typed, _ in self._blocks * times)
        for written, meant in instead.items():
            script = script.replace(written, meant)
        async with asyncio.timeout(seconds):
            shell = await asyncio.create_subprocess_exec(
                *("bash", "-c", f"{before}\n{script}"),
                cwd=folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await shell.communicate()
        return [lines(one) for one in said.decode().split(END)][:-1]


def lines(text):
    return [line.rstrip() for line in text.strip("\n").splitlines()]
