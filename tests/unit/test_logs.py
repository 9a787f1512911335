import asyncio
import gc
import json
import logging
import sys
import threading
from uuid import uuid4

import pytest
import uvloop

from procession.app import logs
from procession.queue.types import About, about


@pytest.fixture
def said(capsys):
    """What is logged from now on, line by line."""
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    levels = {name: logging.getLogger(name).level for name in logs.HUSHED}
    hooks = threading.excepthook, sys.unraisablehook

    def lines():
        return capsys.readouterr().err.splitlines()

    yield lines
    root.level, root.handlers[:] = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=False)
    threading.excepthook, sys.unraisablehook = hooks


def test_a_line_is_a_json_object(said):
    logs.set_up("info", "json")

    logging.getLogger("procession.app.test").info("Saved %d\nthings", 3)

    (line,) = map(json.loads, said())
    assert line.pop("at").endswith("+00:00")
    assert line == {"level": "info", "logger": "procession.app.test", "message": "Saved 3\nthings"}


@pytest.mark.parametrize("form", ["json", "text"])
def test_of_what_was_raised_the_type_and_the_places_are_told_and_never_the_message(said, form):
    logs.set_up("info", form)

    try:
        int("hunter2")
    except ValueError:
        logging.getLogger("procession.app.test").exception("It failed")

    text = "\n".join(said())
    assert "It failed" in text
    assert "ValueError" in text
    assert "test_logs.py" in text
    assert "hunter2" not in text


def fails(secret="hunter2"):
    raise ValueError(secret)


def in_a_thread():
    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()


def where_none_can_be_raised():
    class Left:
        def __del__(self):
            fails()

    Left()


def in_a_task_that_nobody_waits_for():
    async def task():
        fails()

    async def spawn():
        asyncio.create_task(task())  # noqa: RUF006  as it should not be
        await asyncio.sleep(0)

    asyncio.run(spawn())
    gc.collect()


def in_a_callback():
    async def spawn():
        asyncio.get_running_loop().call_soon(fails, "hunter2")
        await asyncio.sleep(0)

    uvloop.run(spawn())
    asyncio.run(spawn())


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    "broken",
    [in_a_thread, where_none_can_be_raised, in_a_task_that_nobody_waits_for, in_a_callback],
)
def test_nor_is_it_where_nobody_caught_it(said, form, broken):
    logs.set_up("info", form)

    broken()

    text = "\n".join(said())
    assert "hunter2" not in text
    assert "ValueError" in text
    assert "test_logs.py" in text
    assert "Traceback" not in text


def test_what_goes_on_failing_is_told_once_a_minute(said, monkeypatch):
    monkeypatch.setattr(logs, "SELDOM", 3600.0)
    logs.set_up("info", "text")
    keeper, other = map(logging.getLogger, ("procession.app.keeper", "procession.app.start"))

    for kind in ("PoolTimeout", "PoolTimeout", "OperationalError", "PoolTimeout"):
        keeper.warning("It cannot be reached: %s", kind)
        other.warning("Trying again")
    monkeypatch.setattr(logs, "SELDOM", 0.0)
    keeper.warning("It cannot be reached: %s", "PoolTimeout")

    told = [line.split(" warning ")[1] for line in said()]
    assert told.count("Trying again") == 4
    assert [line for line in told if line != "Trying again"] == [
        "It cannot be reached: PoolTimeout",
        "It cannot be reached: OperationalError",
        "It cannot be reached: PoolTimeout",
    ]


def test_what_anybody_can_cause_is_told_once_a_minute_and_what_went_wrong_each_time(said):
    logs.set_up("info", "text")
    server = logging.getLogger("uvicorn.error")

    for _ in range(3):
        server.warning("Invalid HTTP request received.")
        server.error("Exception in ASGI application\n")

    told = [line.split(" ", 1)[1] for line in said()]
    assert told.count("warning Invalid HTTP request received.") == 1
    assert told.count("error   Exception in ASGI application") == 3
    assert len(told) == 4


def test_a_connection_that_is_closed_is_told_where_it_was_met_and_not_by_the_pool(said):
    logs.set_up("info", "text")

    logging.getLogger("psycopg.pool").warning("discarding closed connection: %s", object())

    assert said() == []


def test_a_line_of_text_is_one_whatever_it_tells(said):
    logs.set_up("info", "text")
    before = about.set(About(tenant="acme", correlation="a\x1b[2Jb"))

    logging.getLogger("procession.app.test").info("Saved %s", "1\n12:00:00 error   Gone\x1b[31m")
    about.reset(before)

    (line,) = said()
    assert line.endswith(
        "Saved 1\\n12:00:00 error   Gone\\x1b[31m (tenant acme, correlation a\\x1b[2Jb)"
    )


def test_what_a_library_says_is_masked(said):
    logs.set_up("info", "json")

    logging.getLogger("psycopg.pool").warning(
        "error connecting: postgresql://ann:hunter2@10.0.0.7/app"
    )

    (line,) = map(json.loads, said())
    assert "hunter2" not in line["message"]
    assert "10.0.0.7/app" not in line["message"]


@pytest.mark.parametrize("level", ["debug", "info"])
def test_what_tells_too_much_is_heard_from_warnings_on(said, level):
    logs.set_up(level, "json")

    # not uvicorn.access, which a server that was made before has silenced for good
    for name in ("procrastinate.worker", "httpcore2.http11", "httpx2", "uvicorn.error"):
        logging.getLogger(name).info("arguments and addresses")
        logging.getLogger(name).warning("trouble")

    assert [json.loads(line)["message"] for line in said()] == ["trouble"] * 4


def test_the_level_is_the_least_that_is_told(said):
    logs.set_up("error", "text")

    logging.getLogger("procession.app.test").warning("hm")
    logging.getLogger("procession.app.test").error("oh")

    assert [line.split(" ", 1)[1] for line in said()] == ["error   oh"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_names_what_it_belongs_to(said, form):
    logs.set_up("info", form)
    known = About(
        tenant="acme", run=uuid4(), action=2, attempt=3, correlation="req-9", trace_id="ab" * 16
    )
    before = about.set(known)

    logging.getLogger("procession.app.test").warning("Slow")
    about.reset(before)
    logging.getLogger("procession.app.test").warning("Idle")

    slow, idle = said()
    if form == "json":
        names = ("tenant", "run", "action", "attempt", "correlation", "trace_id")
        told = json.loads(slow)
        assert [str(told[name]) for name in names] == [
            "acme",
            str(known.run),
            "2",
            "3",
            "req-9",
            "ab" * 16,
        ]
        assert json.loads(idle).keys() == {"at", "level", "logger", "message"}
    else:
        of = f"tenant acme, run {known.run}, action 2, attempt 3, correlation req-9"
        assert slow.endswith(f"warning Slow ({of}, trace_id {'ab' * 16})")
        assert idle.endswith("warning Idle")
