"""The metrics of this process, for who holds the scrape key."""

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from procession.api.problems import MEDIA_TYPE, Problem
from procession.api.services import services_of
from procession.engine.errors import UnauthenticatedError

router = APIRouter(tags=["metrics"])

REFUSED: dict[int | str, dict[str, Any]] = {
    401: {
        "description": "The scrape key is missing or wrong, or none is configured",
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }
}


@router.get("/metrics", response_class=PlainTextResponse, responses=REFUSED)
async def metrics(request: Request) -> Response:
    """What this process has counted, as Prometheus reads it. For who holds METRICS__SCRAPE_KEY."""
    scrape = services_of(request).scrape
    if not scrape.lets_in(request.headers):
        raise UnauthenticatedError
    return scrape.answer()
