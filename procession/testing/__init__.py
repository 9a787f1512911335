"""Trying a workflow, or an action of your own, without a database and without waiting.

A `Rehearsal` takes the workflow as the API takes it and performs its run in memory, by the same
rules: order, back-off, halts, captures, undos. The clock is moved, not waited for.
"""

from procession.testing.calls import Answers, Sent, answer
from procession.testing.memory import Memory
from procession.testing.rehearsal import Rehearsal
from procession.testing.scripts import Script
from procession.testing.tried import NotFiredError, RefusedError, Tried

__all__ = [
    "Answers",
    "Memory",
    "NotFiredError",
    "RefusedError",
    "Rehearsal",
    "Script",
    "Sent",
    "Tried",
    "answer",
]
