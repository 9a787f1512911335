"""A ledger behind OAuth: a real server of tokens, and an API that lets in who shows one."""

import asyncio
import base64
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote_plus

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from procession.app.server import Address, listening

CLIENT_ID, CLIENT_SECRET = "cli:ent/1", "s3cr3t %+/:é of the client"


@dataclass
class Ledger:
    """Grants tokens to its one client, and books what is sent with one of them."""

    url: str = ""
    expires_in: object = 3600
    grants: list[dict[str, str]] = field(default_factory=list)
    booked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    given: list[str] = field(default_factory=list)
    refusal: Response | None = None  # in the place of a token
    answer: Response | None = None  # to whoever is let in
    gate: asyncio.Event = field(default_factory=asyncio.Event)  # before a token is given
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def revoke(self):
        """Every token so far is good for nothing."""
        self.valid.clear()

    async def token(self, request: Request) -> Response:
        form = {name: one[0] for name, one in parse_qs((await request.body()).decode()).items()}
        self.grants.append(form)
        self.asked.set()
        await self.gate.wait()
        if self.refusal is not None:
            return self.refusal
        if self._client(request, form) != (CLIENT_ID, CLIENT_SECRET):
            said = {"error": "invalid_client", "error_description": f"{CLIENT_SECRET} is wrong"}
            return JSONResponse(said, 401)
        token = secrets.token_urlsafe(24)
        self.valid.add(token)
        self.given.append(token)
        life = {} if self.expires_in is None else {"expires_in": self.expires_in}
        return JSONResponse({"access_token": token, "token_type": "bearer", **life})

    def _client(self, request: Request, form: dict[str, str]) -> tuple[str, str]:
        shown = request.headers.get("authorization", "")
        if not shown.startswith("Basic "):
            return form.get("client_id", ""), form.get("client_secret", "")
        name, _, secret = base64.b64decode(shown[6:]).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)

    async def book(self, request: Request) -> Response:
        body, token = await request.body(), request.headers.get("authorization", "")[7:]
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        self.booked.append((request.method, path, dict(request.headers), body))
        if token not in self.valid:
            return JSONResponse({"error": f"the token {token} is not good"}, 401)
        return self.answer or JSONResponse({"echo": token, "secret": CLIENT_SECRET})


METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]


@pytest.fixture
async def ledger():
    one = Ledger()
    one.gate.set()
    app = Starlette(
        routes=[
            Route("/token", one.token, methods=["POST"]),
            Route("/{path:path}", one.book, methods=METHODS),
        ]
    )
    async with listening(app, Address("127.0.0.1", 0), grace=1) as where:
        one.url = f"http://127.0.0.1:{where.port}"
        yield one
