"""Two lists of actions, of which a comparison picks one.

Its children are performed in order, all of them, each under a key of its own; together they are one
action, which is tried again only where a repeat would repeat nothing that went out.
"""

import logging
from collections.abc import Mapping
from functools import partial

import msgspec
from typing_extensions import override

from procession.actions.base import Action, Context, Kept, Parameter, Stub
from procession.engine.branches import (
    CONDITIONAL,
    DEEPEST,
    LETTERED,
    BranchError,
    children_of,
)
from procession.engine.conditions import holds, parse_comparison
from procession.engine.outcome import Failed, Outcome, Succeeded, Unknown
from procession.engine.scope import Names
from procession.engine.workflow import ActionDefinition

log = logging.getLogger(__name__)

GONE = "The condition reads an entry that is deleted."


class Conditional(Action):
    """Perform one of two lists of actions, as a comparison with the entry says."""

    parameters = (
        Parameter(
            "Condition",
            required=True,
            description="LEFT == RIGHT or LEFT != RIGHT, without regard to case",
            example="{{data.Language}} == en",
        ),
        Parameter(
            "ThenActions",
            required=True,
            description="When it is so: a JSON array of {type, parameters}",
            example='[{"type": "Sms", "parameters": {"To": "+639170000000", "Message": "Out"}}]',
        ),
        Parameter("ElseActions", description="When it is not: the same", example="[]"),
    )

    def repeatable(self, parameters: Mapping[str, str]) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  a method may stand for it
        """Nothing by itself: the registry asks its children."""
        return False

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        letter = await _begun(context) or _decided(parameters.get("Condition", ""), context)
        if letter is None:
            return Failed(GONE)
        branch = LETTERED[letter]
        try:
            children = children_of(parameters.get(branch, ""))
        except BranchError as error:
            return Failed(f"{branch} {error}.")
        assert context.children is not None, "whoever performs it gives it"
        if unknown := sorted(
            {one.type for one in children if not context.children.serves(one.type)}
        ):
            return Failed(f"{branch} names actions that there are not: {', '.join(unknown)}.")
        if _depth(context) >= DEEPEST and any(one.type == CONDITIONAL for one in children):
            return Failed(f"{branch} is nested more than {DEEPEST} deep.")
        return _together(children, await _each(children, letter, context))


async def _begun(context: Context) -> str | None:
    """The branch of which an earlier attempt has written something.

    That may be the very field that the condition reads: the other branch was never meant, and what
    is left of this one would never be done.
    """
    if context.attempt == 1 or context.entries is None:
        return None
    key = context.idempotency_key
    for marker in await context.entries.written(key):
        return marker.removeprefix(f"{key}-")[0]
    return None


def _decided(condition: str, context: Context) -> str | None:
    """The branch that the condition picks; None where the entry that it reads is gone."""
    comparison = parse_comparison(condition)
    if comparison is None:
        log.warning("A Conditional's condition is no comparison, and counts as false")
        return "e"
    if isinstance(context.entry, Stub) and comparison.reads_content():
        return None
    names = Names(entry=context.entry, content_type=context.content_type)
    return "t" if holds(comparison, names) else "e"


def _depth(context: Context) -> int:
    """How many Conditionals this one is, the outermost being the first."""
    key = f"{context.run_id.hex}-{context.ordinal}"
    inside = context.idempotency_key.removeprefix(key).removeprefix("-undo")
    return 1 + inside.count("-")


async def _each(
    children: tuple[ActionDefinition, ...], letter: str, context: Context
) -> list[Outcome]:
    """Perform them one after another. What each must repeat to the byte is kept by its place."""
    assert context.children is not None
    outcomes: list[Outcome] = []
    bodies = msgspec.json.decode(context.kept.body or "{}", type=dict[str, msgspec.Raw])

    async def store(body: str, child: ActionDefinition, place: str) -> None:
        bodies[place] = _packed(child, body)
        await context.kept.put(msgspec.json.encode(bodies).decode())

    for index, child in enumerate(children):
        place = f"-{letter}{index}"
        keep = partial(store, child=child, place=place)
        kept = Kept(_unpacked(bodies.get(place)), context.kept.deliveries, keep)
        outcomes.append(await context.children.perform(child, place, kept))
    return outcomes


def _packed(child: ActionDefinition, body: str) -> msgspec.Raw:
    """What a child keeps, as a value. What the children of a Conditional keep is one as it is.

    As a text in a text in a text, every quote of the innermost would be written as 32 signs.
    """
    return msgspec.Raw(body.encode() if child.type == CONDITIONAL else msgspec.json.encode(body))


def _unpacked(kept: msgspec.Raw | None) -> str | None:
    """The same as the child knows it."""
    if kept is None:
        return None
    written = bytes(kept)
    return msgspec.json.decode(written, type=str) if written[:1] == b'"' else written.decode()


def _together(children: tuple[ActionDefinition, ...], outcomes: list[Outcome]) -> Outcome:
    """What came of all of them. An error names the types and says no more."""
    failed = [
        child.type
        for child, outcome in zip(children, outcomes, strict=True)
        if isinstance(outcome, Failed | Unknown)
    ]
    if not failed:
        return Succeeded()
    said = f"Actions of the branch failed: {', '.join(dict.fromkeys(failed))}."
    if any(isinstance(one, Unknown) for one in outcomes):
        return Unknown(said)
    retryable = not any(
        isinstance(one, Succeeded) or (isinstance(one, Failed) and not one.retryable)
        for one in outcomes
    )
    return Failed(said, retryable=retryable)
