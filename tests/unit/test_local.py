import os
import subprocess
from pathlib import Path

import pytest

from procession.app import local


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what ended is told by /proc")
def test_a_server_that_ended_does_not_live_though_nobody_waited_for_it(tmp_path):
    program = tmp_path / "postgres"
    program.symlink_to("/bin/cat")
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe, bufsize=0) as child:
        child.stdin.write(b"it is up\n")
        child.stdout.read(1)

        lived = local._lives(child.pid)  # noqa: SLF001
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        lives = local._lives(child.pid)  # noqa: SLF001

    assert (lived, lives) == (True, False)
