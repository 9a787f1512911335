"""What a person may do to a run. No body; the answer is the run as it is after the write."""

from typing import Annotated

from fastapi import Depends

from procession.api import things
from procession.api.deps import Call, Database
from procession.api.paths import Ordinal, RunId
from procession.api.routes import api_router, needs
from procession.api.run_view import RunView
from procession.api.runs import viewed_one
from procession.queue import commands
from procession.queue.commands import Target

router = api_router("runs")
RETRY = [needs("retry_workflow_actions", things.run)]


def _target(run_id: RunId, call: Call) -> Target:
    return Target(call.tenant, run_id, call.by)


At = Annotated[Target, Depends(_target)]


@router.post("/workflow-runs/{id}/cancel", dependencies=[needs("manage_workflows", things.run)])
async def cancel_run(target: At, conn: Database) -> RunView:
    """Stop what of the run has not happened."""
    return await viewed_one(conn, await commands.cancel(conn, target))


@router.post("/workflow-runs/{id}/abandon", dependencies=RETRY)
async def abandon_run(target: At, conn: Database) -> RunView:
    """Undo what of the run has happened."""
    return await viewed_one(conn, await commands.abandon(conn, target))


@router.post("/workflow-runs/{id}/force-end", dependencies=RETRY)
async def force_end_run(target: At, conn: Database) -> RunView:
    """End an unfinished run from any state, at once."""
    return await viewed_one(conn, await commands.force_end(conn, target))


@router.post(
    "/workflow-runs/{id}/actions/{ordinal}/retry",
    dependencies=[needs("retry_workflow_actions", things.action)],
)
async def retry_action(target: At, ordinal: Ordinal, conn: Database) -> RunView:
    """Put one action of the run back to due."""
    return await viewed_one(conn, await commands.retry(conn, target, ordinal))
