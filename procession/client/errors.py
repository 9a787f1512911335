"""What a call may end in, beside its answer.

ClientError
├── UnreachableError    nothing answered, or what came was no answer of Procession's
└── RefusedError        it was refused: `status` and `code` say why
"""

from collections.abc import Mapping
from typing import Any

from typing_extensions import override


class ClientError(Exception):
    """A call that did not do what it was to do."""


class UnreachableError(ClientError):
    """Nobody answered. Whether the call was heard is not known."""


class RefusedError(ClientError):
    """A refusal, as Procession tells it: go by the code."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code: str = problem.get("code", "unknown")
        self.title: str = problem.get("title", "The request was refused")
        self.detail: str | None = problem.get("detail")
        self.trace_id: str | None = problem.get("traceId")
        self.faults: list[tuple[str, str]] = [
            (one.get("name", ""), one.get("reason", "")) for one in problem.get("errors") or ()
        ]
        self.problem = problem  # with what some codes say besides
        super().__init__(status, self.code)

    @override
    def __str__(self) -> str:
        faults = [f"  {name}: {reason}" for name, reason in self.faults]
        said = f"{self.title} ({self.status} {self.code})."
        if self.detail and not faults:
            said = f"{said} {self.detail}"
        return "\n".join([said, *faults])
