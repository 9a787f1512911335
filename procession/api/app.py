"""The application: its routers, what stands before them, and its description of itself."""

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from procession.api import (
    audit,
    catalogue,
    connectors,
    content_types,
    deliveries,
    entries,
    health,
    keys,
    me,
    requests,
    roles,
    run_commands,
    runs,
    tenants,
    workflows,
)
from procession.api.body import SHAPES
from procession.api.middleware import Door
from procession.api.problems import MEDIA_TYPE, Problem, add_handlers
from procession.api.services import Services

ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    me.router,
    keys.router,
    roles.router,
    tenants.router,
    content_types.router,
    entries.router,
    connectors.router,
    requests.router,
    catalogue.router,  # before the paths that hold an id
    workflows.router,
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
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    app.state.routers = ROUTERS
    add_handlers(app)
    app.add_middleware(Door, services=services)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = lambda: _description(app)
    return app


def _description(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's, with our bodies, problems and credentials in it."""
    if app.openapi_schema is None:
        app.openapi_schema = _described(
            get_openapi(title=app.title, version=app.version, routes=app.routes)
        )
    return app.openapi_schema


def _described(document: dict[str, Any]) -> dict[str, Any]:
    shapes: list[tuple[type[BaseModel], JsonSchemaMode]]
    shapes = [(one, "validation") for one in (*SHAPES.values(), Problem)]
    _, definitions = models_json_schema(
        shapes, by_alias=True, ref_template="#/components/schemas/{model}"
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for stock in ("HTTPValidationError", "ValidationError"):
        schemas.pop(stock, None)
    schemas.update(definitions["$defs"])
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # faults are 400 here
            if path.startswith("/api/"):
                operation["security"] = [{"bearer": []}]
                operation["responses"]["default"] = _problem()
    return document


def _problem() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": "What went wrong", "content": {MEDIA_TYPE: {"schema": schema}}}
