"""Actions that do what a test says."""

from collections.abc import Mapping, Sequence

from typing_extensions import override

from procession.actions.base import Action, Context, Parameter
from procession.engine.catalogue import RESERVED
from procession.engine.outcome import Outcome, Succeeded


class Script(Action):
    """An action that gives these outcomes, one an attempt, and then succeeds. It keeps what came.

    An exception among them is raised.
    """

    parameters = (Parameter("*"),)  # whatever it is given

    def __init__(
        self,
        *outcomes: Outcome | Exception,
        repeatable: bool = True,
        outputs: Sequence[str] = (),
    ) -> None:
        self.repeatable = repeatable
        self.outputs = tuple(outputs)  # pyright: ignore[reportAttributeAccessIssue]  of this one object
        self._outcomes = list(outcomes)
        self.seen: list[tuple[Context, Mapping[str, str]]] = []

    @property
    def parameters_seen(self) -> list[dict[str, str]]:
        """What each attempt was given, without what Procession sets itself."""
        return [
            {name: text for name, text in parameters.items() if name.lower() not in RESERVED}
            for _, parameters in self.seen
        ]

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        self.seen.append((context, parameters))
        said = self._outcomes.pop(0) if self._outcomes else Succeeded()
        if isinstance(said, Exception):
            raise said
        return said
