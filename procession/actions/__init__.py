"""What a workflow can do; and what a package needs to add a type of its own."""

from procession.actions.base import (
    Action,
    Context,
    Failed,
    Outcome,
    Parameter,
    Skipped,
    Succeeded,
    Unknown,
)

__all__ = [
    "Action",
    "Context",
    "Failed",
    "Outcome",
    "Parameter",
    "Skipped",
    "Succeeded",
    "Unknown",
]
