"""The connectors and stored requests of a rehearsal, as the API takes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from procession.actions.request import Stored
from procession.engine.connector_body import parse_connector
from procession.engine.errors import Fault, ValidationFailedError
from procession.engine.request_definition import parse_request
from procession.outbound.oauth import Tokens
from procession.queue.connectors import Kept
from procession.queue.requests import Found
from procession.queue.sealing import NO_KEYS

Bodies = Mapping[str, object]  # by slug


@dataclass(frozen=True, slots=True)
class Requests:
    """What an action of type Request may name."""

    found: Mapping[str, Found]

    @property
    def repeatable(self) -> frozenset[str]:
        """Those that may be sent again."""
        return frozenset(slug for slug, one in self.found.items() if one.is_repeatable)

    async def find(self, tenant: str, slug: str) -> Found | None:
        return self.found.get(slug)

    def stored(self, clock: Callable[[], float]) -> Stored:
        """The same for the action; tokens grow old by this clock."""
        return Stored(self.find, NO_KEYS, Tokens(clock))


def requests_of(tenant: str, connectors: Bodies, requests: Bodies, at: datetime) -> Requests:
    """What these bodies say; raises ValidationFailedError."""
    kept: dict[str, Kept] = {}
    for slug, body in connectors.items():
        sent = parse_connector(body, lambda _: True)
        kept[slug] = Kept(
            tenant=tenant,
            slug=slug,
            connector=sent.connector,
            secrets=dict(sent.given),
            created_at=at,
            updated_at=at,
        )
    found: dict[str, Found] = {}
    for slug, body in requests.items():
        request = parse_request(body)
        if request.connector_slug not in kept:
            raise ValidationFailedError([Fault("connectorSlug", "is not among the connectors")])
        found[slug] = Found(slug, request, kept[request.connector_slug])
    return Requests(found)
