"""Whether this process answers, and whether it can do its work. Open to everybody."""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response, status
from pydantic import BaseModel

from procession.api.services import services_of

router = APIRouter(prefix="/health", tags=["health"])


class Live(BaseModel):
    """It answers."""

    status: Literal["live"] = "live"


class Readiness(BaseModel):
    """It is ready, or why it is not."""

    status: Literal["ready", "not-ready"]
    reasons: list[str] | None = None


@router.get("/live")
async def live() -> Live:
    """Whether the process answers at all. The database is not asked."""
    return Live()


NOT_READY: dict[int | str, dict[str, Any]] = {
    status.HTTP_503_SERVICE_UNAVAILABLE: {"model": Readiness, "description": "It is not ready"}
}


@router.get("/ready", response_model_exclude_none=True, responses=NOT_READY)
async def ready(request: Request, response: Response) -> Readiness:
    """Whether requests will be served, and if not, why."""
    reasons = await services_of(request).reasons()
    if not reasons:
        return Readiness(status="ready")
    response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    return Readiness(status="not-ready", reasons=reasons)
