"""What the doctor makes of the work: who does it, what waits, and what is in its way."""

from collections.abc import AsyncGenerator
from datetime import timedelta

from procession.app import compose
from procession.app.finding import Check, State
from procession.app.settings import Settings
from procession.queue import checkup
from procession.queue.checkup import Work
from procession.queue.holders import holders
from procession.queue.pool import Connection

LAPSED = 60.0  # seconds in which a lapsed lease is rescued, wherever a worker lives
DUE = 900.0  # seconds that work may be due
SLACK = int(checkup.SLACK / timedelta(hours=1))
START = "Start a worker: procession worker."
SWITCHED_OFF = (
    "Each has WORKFLOWS__RUNNER_ENABLED=false: set it to true and restart it, or start another."
)


async def workers(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    work = await checkup.work(conn)
    says = f"{work.workers} live, of which {work.claiming} claim"
    if not work.claiming:
        state = State.FAILED if work.due else State.WARNING
        yield Check("workers", state, says, _to_have_one(work))
    else:
        yield Check("workers", State.OK, says)
    late = work.oldest_due > DUE
    hung = "A receiver that hangs holds up the others: raise WORKFLOWS__RUNNER_CONCURRENCY."
    yield Check(
        "due",
        State.WARNING if late else State.OK,
        f"{work.due} runs are due, the oldest for {work.oldest_due:.0f} s",
        (hung if work.claiming else _to_have_one(work)) if late else "",
    )
    if work.unserved:
        yield Check(
            "stuck",
            State.WARNING,
            f"{work.unserved} runs wait for an action type that no live worker serves",
            "Start a worker that has it; after 10 minutes they fail.",
        )


def _to_have_one(work: Work) -> str:
    return SWITCHED_OFF if work.workers else START


async def leases(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    work = await checkup.work(conn)
    is_old = work.oldest_lapsed > LAPSED
    yield Check(
        "leases",
        State.FAILED if is_old else State.OK,
        f"{work.lapsed} have lapsed, the oldest {work.oldest_lapsed:.0f} s ago",
        await _why_they_stay(conn, work) if is_old else "",
    )


async def _why_they_stay(conn: Connection, work: Work) -> str:
    if not work.workers:  # one that claims nothing rescues as well
        return START
    if not (found := await holders(conn)):
        return "A live worker rescues them within seconds: what does it log?"
    named = ", ".join(f"{one.pid} ({one.name}, {one.state}, {one.seconds:.0f} s)" for one in found)
    return (
        f"A run that a session has locked is passed over. Those that hold locks on runs: {named}."
        " One that should not is ended by `select pg_terminate_backend(pid)`."
    )


async def jobs(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    found = await checkup.jobs(conn)
    differ = found.missing + found.needless
    yield Check(
        "jobs",
        State.WARNING if differ else State.OK,
        f"{found.missing} are missing, {found.needless} belong to no run"
        if differ
        else "Each due run has one",
        "A live worker puts that right; procession doctor --requeue does at once."
        if differ
        else "",
    )


async def retention(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
    work, windows = await checkup.work(conn), compose.windows(settings)
    ages = {
        name: None if age is None else age + checkup.SLACK
        for name, age in (
            ("succeeded", windows.succeeded),
            ("failed", windows.failed),
            ("deliveries", windows.deliveries),
        )
    }
    left = await checkup.overdue(conn, ages)
    if left:
        yield Check(
            "retention",
            State.WARNING,
            f"{left} runs and deliveries should have been removed over {SLACK} hours ago",
            "A worker removes 10,000 of a kind in an hour: does one live? Where more comes in, "
            "let a scheduler run `procession sweep`.",
        )
    else:
        at = work.swept_at
        begun = f"the last sweep began at {at:%Y-%m-%d %H:%M} UTC" if at else "no sweep has begun"
        yield Check("retention", State.OK, f"Nothing is overdue; {begun}")
