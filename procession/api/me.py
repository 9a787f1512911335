"""Who is calling, and what that lets it do."""

from procession.api.deps import Caller
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Who, who
from procession.engine.access import CAPABILITIES

router = api_router("access")


class Me(Answer):
    """The caller of this request."""

    actor: Who
    tenant: str
    roles: list[str]
    capabilities: list[str]


@router.get("/me", dependencies=[needs(None)])
async def read_me(caller: Caller) -> Me:
    """The caller, its tenant, and its capabilities."""
    return Me(
        actor=who(caller.actor),
        tenant=caller.tenant,
        roles=list(caller.roles),
        capabilities=[one for one in CAPABILITIES if one in caller.capabilities],
    )
