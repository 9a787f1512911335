"""`procession doctor`: looks an installation over from where it is run, and says what helps.

It changes nothing, but for `--requeue`. It ends with 0 when nothing failed, with 1 when something
has, and with 2 when the settings or the command line are wrong.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from procession.app import logs
from procession.app.checks import SettingsError, broken_rules, in_range
from procession.app.examination import database_checks, settings_checks
from procession.app.finding import Check, State
from procession.app.refusal import RefusalError
from procession.app.settings import Settings
from procession.app.start import refusing, run
from procession.queue.checkup import Jobs, jobs
from procession.queue.leases import Unreachable
from procession.queue.pool import Connection, make_pool
from procession.queue.reach import check_schema, out_of_reach
from procession.queue.requeue import requeue

MARKS = {State.OK: "ok     ", State.WARNING: "warning", State.FAILED: "FAILED "}


@dataclass(frozen=True, slots=True)
class Requeued:
    """What was wrong with the jobs before, and what still is."""

    before: Jobs
    after: Jobs

    def __str__(self) -> str:
        made = f"Made {self.before.missing} jobs that were missing"
        taken = f"took away {self.before.needless} that no run called for"
        left = self.after.missing + self.after.needless
        rest = "each due run has one" if not left else f"{left} moved meanwhile: look again"
        return f"{made}, {taken}; {rest}."


@refusing()
def main(given: argparse.Namespace) -> None:
    """`procession doctor`."""
    try:
        settings = in_range()
    except SettingsError as error:
        _say([Check("settings", State.FAILED, one) for one in error.faults], None, given.json)
        raise SystemExit(2) from None
    logs.set_up("warning", "text")
    faults = broken_rules(settings, "doctor")
    requeued = run(_requeued(settings)) if given.requeue and not faults else None
    checks = [*settings_checks(settings, faults), *run(database_checks(settings))]
    _say(checks, requeued, given.json)
    failed = any(one.state is State.FAILED for one in checks)
    raise SystemExit(2 if faults else int(failed))


async def _requeued(settings: Settings) -> Requeued:
    if why := await out_of_reach(settings.database):
        raise RefusalError(f"{why}. Nothing was changed.")
    await check_schema(settings.database)
    async with make_pool(settings.database) as pool, pool.connection() as conn:
        before = await jobs(conn)
        await asyncio.to_thread(_rebuild, settings)
        return Requeued(before, await _settled(conn))


def _rebuild(settings: Settings) -> None:
    try:
        requeue(settings.database)
    except Unreachable as error:
        raise RefusalError(
            f"The queue was not made anew to its end ({type(error).__name__}). What was done"
            " stays; --requeue may be asked for again."
        ) from None


async def _settled(conn: Connection) -> Jobs:
    """Without what was on its way while it was looked at."""
    found = await jobs(conn)
    for _ in range(3):
        if not found.missing + found.needless:
            break
        await asyncio.sleep(0.2)
        found = await jobs(conn)
    return found


def _say(checks: Sequence[Check], requeued: Requeued | None, as_json: bool) -> None:
    if as_json:
        _say_as_json(checks, requeued)
        return
    lines = [str(requeued)] if requeued else []
    for one in checks:
        lines.append(f"{MARKS[one.state]} {one.name:<13} {one.says}")
        lines += [f"{'':22}{one.helps}"] if one.helps else []
    sys.stdout.write("\n".join([*lines, ""]))


def _say_as_json(checks: Sequence[Check], requeued: Requeued | None) -> None:
    found = {
        "ok": not any(one.state is State.FAILED for one in checks),
        "requeued": asdict(requeued) if requeued else None,
        "checks": [asdict(one) for one in checks],
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
