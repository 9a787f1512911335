"""Finding the actions: ours, and those of the packages that are installed beside us."""

import logging
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from procession.actions.base import Action
from procession.actions.caught import caught
from procession.actions.conditional import Conditional
from procession.actions.create_task import CreateTask
from procession.actions.email import Email
from procession.actions.registry import Registry
from procession.actions.request import Request, Stored
from procession.actions.revalidate_cache import RevalidateCache, Vercel
from procession.actions.sms import Sms
from procession.actions.update_field import UpdateField
from procession.actions.webhook import Webhook
from procession.engine.catalogue import RESERVED, Parameter
from procession.outbound.mail import Mailer
from procession.outbound.sms import Twilio

log = logging.getLogger(__name__)

GROUP = "procession.actions"
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)


class TakenError(Exception):
    """A name of an action is built in, or registered twice; nobody can say whose it is."""


def built_in(
    *,
    allow_insecure_signed_urls: bool = False,
    mailer: Mailer | None = None,
    texts: Twilio | None = None,
    vercel: Vercel | None = None,
    requests: Stored | None = None,
) -> dict[str, Action]:
    """The actions of Procession itself."""
    return {
        "Webhook": Webhook(allow_insecure_signed_urls=allow_insecure_signed_urls),
        "Request": Request(requests),
        "Email": Email(mailer),
        "Sms": Sms(texts),
        "RevalidateCache": RevalidateCache(vercel),
        "UpdateField": UpdateField(),
        "CreateTask": CreateTask(),
        "Conditional": Conditional(),
    }


def load(ours: Mapping[str, Action], found: Iterable[EntryPoint] | None = None) -> Registry:
    """All that can be served. A package that fails to load is not, and the others are."""
    points = list(entry_points(group=GROUP) if found is None else found)
    names = [*ours, *(point.name for point in points)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TakenError(f"More than one action is registered as {', '.join(twice)}")
    made = {point.name: _made(point) for point in points}
    return Registry({**ours, **{name: one for name, one in made.items() if one is not None}})


def _made(point: EntryPoint) -> Action | None:
    if not _TYPE.fullmatch(point.name):
        log.error("The action %s is not served: its name is none of an action type", point.name)
        return None
    action, error = caught(lambda: _checked(point.load()()))
    if error is not None:
        log.error("The action %s is not served: %s", point.name, type(error).__name__)
    return action


def _checked(action: object) -> Action:
    """The object, when it is made as an action must be; raises TypeError or AttributeError."""
    made = cast("Action", action)
    each = [made.perform, *([made.repeatable] if not isinstance(made.repeatable, bool) else [])]
    if not all(callable(one) for one in each):
        raise TypeError
    if not all(isinstance(one, Parameter) for one in cast("tuple[object, ...]", made.parameters)):
        raise TypeError
    if any(one.name.lower() in RESERVED for one in made.parameters):
        raise TypeError
    if not all(isinstance(one, str) for one in cast("tuple[object, ...]", made.outputs)):
        raise TypeError
    return made
