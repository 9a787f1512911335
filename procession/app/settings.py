"""Every environment variable, its range and what it is for: `docs/settings.md` comes from here.

A field is its variable in lower case. Nothing below `app` sees these settings: what it needs is
passed on in the small dataclasses that the rooms declare.
"""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from procession.app.environment import (
    Boolean,
    Host,
    Integer,
    Keys,
    Networks,
    Number,
    PostgresUrl,
    Schema,
    Tokens,
)
from procession.queue.pool import Database

Process = Literal["api", "worker", "migrate", "key create", "up"]


class Settings(BaseSettings):
    """What the environment says, with the defaults for what it leaves out."""

    model_config = SettingsConfigDict(
        alias_generator=str.upper,
        case_sensitive=True,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        validate_default=False,
    )

    database_url: PostgresUrl = Field(repr=False, description="the database that holds everything")
    database__schema: Schema = Field(
        "public", description="where every table lives; the same in all processes"
    )
    database__pool_max: Annotated[Integer, Field(ge=2, le=200)] = Field(
        12, description="connections of the process; a worker needs its concurrency and 2 more"
    )
    database__pool_min: Annotated[Integer, Field(ge=0, le=200)] = Field(
        1, description="connections kept open; at most DATABASE__POOL_MAX"
    )
    database__connect_timeout_seconds: Annotated[Integer, Field(ge=1, le=60)] = Field(
        10, description="longest wait for a connection"
    )
    database__statement_timeout_seconds: Annotated[Integer, Field(ge=1, le=600)] = Field(
        30, description="longest time of one statement"
    )
    host: Host = Field("0.0.0.0", description="where to listen")  # noqa: S104  a container's address is not known before
    port: Annotated[Integer, Field(ge=1, le=65535)] = Field(
        0, description="where to listen; a worker serves its health there"
    )
    http__max_body_bytes: Annotated[Integer, Field(ge=65536, le=16777216)] = Field(
        1048576, description="largest body of a request"
    )
    shutdown_grace_seconds: Annotated[Integer, Field(ge=0, le=600)] = Field(
        25, description="how long a stop waits for requests and actions in flight"
    )
    log__level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least level that is logged"
    )
    log__format: Literal["json", "text"] = Field(
        "json", description="one JSON object a line, or text for a person"
    )

    control_token: Tokens = Field(
        (), repr=False, description="bearer of the control caller; a second one while rotating"
    )
    secrets__keys: Keys = Field(
        {},
        repr=False,
        description="keys of stored credentials; checked, though this release encrypts none yet",
    )

    workflows__runner_enabled: Boolean = Field(
        default=True, description="off: the worker claims nothing; the rest of it goes on"
    )
    workflows__runner_concurrency: Annotated[Integer, Field(ge=1, le=20)] = Field(
        1, description="actions in flight in one worker"
    )
    workflows__lease_seconds: Annotated[Integer, Field(ge=60, le=3600)] = Field(
        300, description="longest time of one attempt"
    )
    workflows__max_depth: Annotated[Integer, Field(ge=0, le=100)] = Field(
        10, description="depth above which a save queues nothing"
    )
    jobs__lease_seconds: Annotated[Integer, Field(ge=60, le=86400)] = Field(
        600, description="longest time of one maintenance task"
    )
    webhooks__allow_insecure_signed_urls: Boolean = Field(
        default=False, description="signed webhooks over http"
    )

    outbound__allowed_networks: Networks = Field(
        (), description="exempt from the deny list of addresses; for development"
    )
    workflows__outbound__retries: Annotated[Integer, Field(ge=0, le=5)] = Field(
        2, description="tries of a call after the first"
    )
    workflows__outbound__attempt_timeout_seconds: Annotated[Number, Field(gt=0, le=300)] = Field(
        10, description="one try, to the headers"
    )
    workflows__outbound__base_delay_milliseconds: Annotated[Integer, Field(ge=0, le=60000)] = Field(
        200, description="floor of the wait between tries; at most MAX_DELAY"
    )
    workflows__outbound__max_delay_seconds: Annotated[Number, Field(gt=0, le=60)] = Field(
        2, description="ceiling of the wait between tries"
    )
    workflows__outbound__max_retry_after_seconds: Annotated[Integer, Field(ge=0, le=120)] = Field(
        5, description="longest Retry-After waited for"
    )
    workflows__outbound__breaker_failures: Annotated[Integer, Field(ge=0, le=100)] = Field(
        5, description="failed calls that open a breaker; 0: no breakers"
    )
    workflows__outbound__breaker_window: Annotated[Integer, Field(ge=1, le=1000)] = Field(
        10, description="calls that a breaker looks at; at least BREAKER_FAILURES"
    )
    workflows__outbound__breaker_sampling_seconds: Annotated[Integer, Field(ge=1, le=3600)] = Field(
        60, description="age of the oldest call that it looks at"
    )
    workflows__outbound__breaker_open_seconds: Annotated[Integer, Field(ge=1, le=3600)] = Field(
        30, description="rest of an open breaker before its probe"
    )

    @property
    def database(self) -> Database:
        return Database(
            url=self.database_url,
            schema=self.database__schema,
            pool_min=self.database__pool_min,
            pool_max=self.database__pool_max,
            connect_timeout=self.database__connect_timeout_seconds,
            statement_timeout=self.database__statement_timeout_seconds,
        )

    def port_of(self, process: Process) -> int:
        return self.port or (8001 if process == "worker" else 8000)
