import os
import subprocess

from procession.app import local


def test_a_server_that_ended_does_not_live_though_nobody_waited_for_it(tmp_path):
    program = tmp_path / "postgres"
    program.symlink_to("/bin/cat")
    with subprocess.Popen([program], stdin=subprocess.PIPE) as child:
        lived = local._lives(child.pid)  # noqa: SLF001
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        lives = local._lives(child.pid)  # noqa: SLF001

    assert (lived, lives) == (True, False)
