"""Roles: what the holders of a key may do."""

from typing import Annotated

from fastapi import Path, Response
from pydantic import Field
from starlette.status import HTTP_201_CREATED, HTTP_204_NO_CONTENT

from procession.api.body import Document, read, takes
from procession.api.deps import Call, Database, Part, Tenant
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Page, Received, page_of
from procession.engine.access import unknown_capabilities
from procession.engine.errors import ValidationFailedError
from procession.queue import roles
from procession.queue.roles import Role

router = api_router("access")
ACCESS = [needs("manage_access")]
RoleName = Annotated[str, Path(alias="name", pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]


class RoleBody(Received):
    """What a role holds; `*` stands for every capability."""

    capabilities: Annotated[list[str], Field(max_length=100)]  # far more than there are


class RoleView(Answer):
    """A role. What a built-in one holds by itself cannot be taken from it."""

    name: str
    capabilities: list[str]
    built_in: bool


def view(role: Role) -> RoleView:
    return RoleView(name=role.name, capabilities=list(role.capabilities), built_in=role.is_built_in)


@router.get("/roles", dependencies=ACCESS)
async def list_roles(conn: Database, tenant: Tenant, part: Part) -> Page[RoleView]:
    """The roles of this tenant, by name, the built-in ones among them."""
    found = await roles.roles(conn, tenant)
    shown = found[part.offset : part.offset + part.page_size]
    return Page[RoleView].model_validate(page_of(shown, len(found), part, view))


@router.put(
    "/roles/{name}",
    dependencies=ACCESS,
    openapi_extra=takes(RoleBody),
    responses={201: {"model": RoleView, "description": "It is new"}},
)
async def save_role(
    name: RoleName, document: Document, conn: Database, call: Call, response: Response
) -> RoleView:
    """Make a role, or replace what it holds."""
    capabilities = read(RoleBody, document).capabilities
    if faults := unknown_capabilities(capabilities):
        raise ValidationFailedError(faults)
    role, is_new = await roles.save_role(conn, call.tenant, name, frozenset(capabilities), call.by)
    if is_new:
        response.status_code = HTTP_201_CREATED
    return view(role)


@router.delete("/roles/{name}", dependencies=ACCESS, status_code=HTTP_204_NO_CONTENT)
async def delete_role(name: RoleName, conn: Database, call: Call) -> None:
    """Take a role away that no working key holds."""
    await roles.delete_role(conn, call.tenant, name, call.by)
