"""The command line: what is wrong with it is said in one line, with status two."""

import base64
import logging
import signal
from importlib.metadata import version

import pytest

from procession.app import worker
from procession.app.cli import main
from procession.app.interrupt import STOPS
from procession.app.settings import Settings


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """An environment with nothing of ours; what a command sets up is taken back."""
    for field in Settings.model_fields.values():
        monkeypatch.delenv(str(field.alias), raising=False)
    root = logging.getLogger()
    logs, signals = (root.level, root.handlers[:]), [signal.getsignal(one) for one in STOPS]
    yield monkeypatch
    root.level, root.handlers[:] = logs
    logging.captureWarnings(capture=False)
    for one, handler in zip(STOPS, signals, strict=True):
        signal.signal(one, handler)


@pytest.fixture
def refused(capsys):
    """What the command says as it ends with status two."""

    def said(*line):
        with pytest.raises(SystemExit) as ended:
            main(line)
        assert ended.value.code == 2
        return capsys.readouterr().err

    return said


KEY = ("key", "create", "--name", "x")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (("up", "--port", "abc"), "argument --port: takes an integer from 1 to 65535, not abc"),
        (("up", "--port", "0"), "argument --port: takes an integer from 1 to 65535, not 0"),
        (("up", "--port", "65536"), "argument --port: takes an integer from 1 to 65535"),
        (("up", "--port", "9" * 5000), "argument --port: takes an integer from 1 to 65535"),
        (("up", "--data", ""), "argument --data: takes a folder"),
        (("up", "--data", "/dev/null/x"), "Nothing can be kept in /dev/null/x (--data): Not a dir"),
        (("key", "create", "--name", ""), "argument --name: takes 1 to 200 characters, not blank"),
        (("key", "create", "--name", " "), "argument --name: takes 1 to 200 characters"),
        (("key", "create", "--name", "x" * 201), "argument --name: takes 1 to 200 characters"),
        (("key", "create"), "the following arguments are required: --name"),
        ((*KEY, "--expires-at", "soon"), "argument --expires-at: takes a time such as 2027-"),
        ((*KEY, "--expires-at", "0001-01-01T00:00+01:00"), "argument --expires-at: takes a time"),
        (("fly",), "invalid choice: 'fly'"),
    ],
    ids=lambda one: " ".join(one)[:40] if isinstance(one, tuple) else "",
)
def test_a_wrong_argument_is_told_in_one_line(refused, line, says):
    (told,) = refused(*line).splitlines()

    assert told.startswith("procession")
    assert says in told


def test_a_command_without_its_settings_is_told_by_its_name(refused):
    assert refused(*KEY) == (
        "procession key create cannot start:\n"
        "  DATABASE_URL is not set: takes a postgresql:// URL\n"
    )


def test_a_start_that_is_refused_leaves_no_folder(environment, refused, tmp_path):
    environment.setenv("LOG__LEVEL", "loud")

    assert "LOG__LEVEL=loud" in refused("up", "--data", str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


def test_the_release_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{version('procession')}\n"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"concurrency": 30}, "procession: --concurrency takes 1 to 20, not 30\n"),
        ({"concurrency": 0}, "procession: --concurrency takes 1 to 20, not 0\n"),
        ({"queues": ["acme"]}, "procession: --queues is not taken: a worker serves every tenant\n"),
    ],
)
async def test_what_the_plain_command_may_not_ask_for(environment, capsys, given, says):
    environment.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/app")
    environment.setenv("SECRETS__KEYS", f"a:{base64.b64encode(bytes(32)).decode()}")

    with pytest.raises(SystemExit) as ended:
        await worker._plain.work(None, given)  # noqa: SLF001  as Procrastinate's command comes in

    assert ended.value.code == 2
    assert capsys.readouterr().err == says
