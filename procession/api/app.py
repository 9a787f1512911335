"""The application: its routers, what stands before them, and its description of itself."""

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI

from procession.api import (
    audit,
    bulk,
    catalogue,
    connectors,
    content_types,
    deliveries,
    dry_run,
    entries,
    health,
    keys,
    manual_run,
    me,
    metrics,
    requests,
    roles,
    run_commands,
    runs,
    tenants,
    workflow_health,
    workflows,
)
from procession.api.description import describe
from procession.api.middleware import Door
from procession.api.problems import add_handlers
from procession.api.services import Services
from procession.api.telling import Telling

ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    metrics.router,
    me.router,
    keys.router,
    roles.router,
    tenants.router,
    content_types.router,
    dry_run.router,
    entries.router,
    connectors.router,
    requests.router,
    catalogue.router,  # before the paths that hold an id
    workflow_health.router,
    workflows.router,
    manual_run.router,
    bulk.router,  # before the paths that hold an id
    runs.router,
    run_commands.router,
    deliveries.router,
    audit.router,
)


def create_app(services: Services) -> FastAPI:
    """The ASGI application on these services. Whoever makes it opens and closes the pool."""
    app = FastAPI(
        title="Procession",
        version=version("procession"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # it tells whole paths
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    app.state.routers = ROUTERS
    add_handlers(app)
    app.add_middleware(Door, services=services)
    app.add_middleware(Telling, tell=services.tell)  # around the door, and what it refuses
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = lambda: _description(app)
    return app


def _description(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = describe(app, ROUTERS)
    return app.openapi_schema
