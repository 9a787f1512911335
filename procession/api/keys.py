"""API keys: made, listed and revoked by whoever manages a tenant's access."""

from typing import Annotated

from fastapi import Path
from pydantic import Field, field_validator
from starlette.status import HTTP_201_CREATED, HTTP_204_NO_CONTENT

from procession.api.body import Document, read, takes
from procession.api.deps import Call, Database, Part, Tenant
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Page, Received, ReceivedTime, Time, page_of
from procession.queue import keys
from procession.queue.keys import CreatedKey, Key, NewKey

router = api_router("access")
ACCESS = [needs("manage_access")]
KeyId = Annotated[str, Path(alias="id", pattern=r"^[A-Za-z0-9]{12}$")]


class KeyBody(Received):
    """What a key is to be. Without expiresAt it works until it is revoked."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    role: Annotated[str, Field(min_length=1, max_length=64)]
    expires_at: ReceivedTime | None = None

    @field_validator("name")
    @classmethod
    def _is_not_blank(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("must not be blank")
        return name


class KeyView(Answer):
    """A key, without what its bearer shows."""

    id: str
    name: str
    role: str
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None


class CreatedKeyView(Answer):
    """A new key, with what its bearer shows: this once."""

    id: str
    name: str
    role: str
    expires_at: Time | None
    created_at: Time
    key: str


def view(key: Key) -> KeyView:
    return KeyView(
        id=key.id,
        name=key.name,
        role=key.role,
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


def _created(made: CreatedKey) -> CreatedKeyView:
    return CreatedKeyView(
        id=made.key.id,
        name=made.key.name,
        role=made.key.role,
        expires_at=made.key.expires_at,
        created_at=made.key.created_at,
        key=made.secret,
    )


@router.post(
    "/keys", dependencies=ACCESS, openapi_extra=takes(KeyBody), status_code=HTTP_201_CREATED
)
async def create_key(document: Document, conn: Database, call: Call) -> CreatedKeyView:
    """Make a key of this tenant. The answer is the one place where it is shown."""
    body = read(KeyBody, document)
    new = NewKey(body.name, body.role, body.expires_at)
    return _created(await keys.create_key(conn, call.tenant, new, call.by))


@router.get("/keys", dependencies=ACCESS)
async def list_keys(conn: Database, tenant: Tenant, part: Part) -> Page[KeyView]:
    """The keys of this tenant, the newest first, revoked ones too."""
    rows, total = await keys.page(conn, tenant, part.span)
    return Page[KeyView].model_validate(page_of(rows, total, part, view))


@router.delete("/keys/{id}", dependencies=ACCESS, status_code=HTTP_204_NO_CONTENT)
async def revoke_key(key_id: KeyId, conn: Database, call: Call) -> None:
    """Revoke a key: its next request is refused."""
    await keys.revoke_key(conn, call.tenant, key_id, call.by)
