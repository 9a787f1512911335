"""Every environment variable, its range and what it is for: `docs/settings.md` comes from here.

A field is its variable in lower case. Nothing below `app` sees these settings: what it needs is
passed on in the small dataclasses that the rooms declare.
"""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from procession.app.environment import (
    Boolean,
    Claim,
    ConsoleUrl,
    Host,
    Integer,
    IssuerUrl,
    Keys,
    Networks,
    Number,
    PostgresUrl,
    Schema,
    Tokens,
)
from procession.app.spellings import (
    ApiKey,
    Id,
    OneAddress,
    Password,
    RelayHost,
    ScrapeKey,
    TextSender,
    Username,
)
from procession.queue.pool import Database

Process = Literal[
    "api", "worker", "migrate", "key create", "rekey", "export", "sweep", "doctor", "up"
]


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
    app__console_url: ConsoleUrl = Field(
        "", description="base of the links to the console in templates; unset they are empty"
    )

    control_token: Tokens = Field(
        (), repr=False, description="bearer of the control caller; a second one while rotating"
    )
    auth__oidc__issuer: IssuerUrl = Field(
        "", description="whose signed tokens are taken as bearers; unset: nobody's"
    )
    auth__oidc__audience: Claim = Field(
        "", description="whom its tokens must be for; needed with an issuer"
    )
    auth__oidc__tenant_claim: Claim = Field(
        "tenant", description="the claim that names the tenant, or a list of them"
    )
    auth__oidc__role_claim: Claim = Field(
        "roles", description="the claim that names the role, or a list of them"
    )
    auth__oidc__name_claim: Claim = Field("name", description="the claim with the person's name")
    auth__oidc__email_claim: Claim = Field("email", description="the claim with their address")
    secrets__keys: Keys = Field(
        {},
        repr=False,
        description="keys of what is kept secret: the first one encrypts, all of them decrypt; "
        "the same in API and workers",
    )
    metrics__scrape_key: ScrapeKey = Field(
        "", repr=False, description="bearer of who reads /metrics; unset: it serves nobody"
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
    workflows__backlog_interval_seconds: Annotated[Integer, Field(ge=0, le=3600)] = Field(
        30,
        description="least time between measurements of what waits; 0: none, and no gauges of it",
    )
    jobs__lease_seconds: Annotated[Integer, Field(ge=60, le=86400)] = Field(
        600, description="longest time of one maintenance task"
    )
    workflows__retention__enabled: Boolean = Field(
        default=True, description="off: no run is removed, however old"
    )
    workflows__retention__succeeded: Annotated[Integer, Field(ge=-36500, le=36500)] = Field(
        7, description="days a run that Succeeded is kept; zero or less keeps it for ever"
    )
    workflows__retention__failed: Annotated[Integer, Field(ge=-36500, le=36500)] = Field(
        90, description="the same of Failed, PartiallyFailed and Cancelled ones"
    )
    webhooks__delivery_log_retention_days: Annotated[Integer, Field(ge=-36500, le=36500)] = Field(
        30, description="age at which delivery rows go; zero or less keeps them for ever"
    )
    webhooks__response_body_retention_hours: Annotated[Integer, Field(ge=0, le=876000)] = Field(
        24, description="age at which response bodies are cleared; their rows stay"
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
    workflows__outbound__email_send_timeout_seconds: Annotated[Integer, Field(ge=0, le=2880)] = (
        Field(0, description="all tries of one email; 0: no limit of its own")
    )

    email__provider: Literal["none", "smtp", "resend"] = Field(
        "none", description="how email leaves; none: every Email fails for good"
    )
    email__from: OneAddress = Field("", description="its sender; needed with a provider")
    email__smtp__host: RelayHost = Field("", description="the relay; needed with smtp")
    email__smtp__port: Annotated[Integer, Field(ge=1, le=65535)] = Field(
        587, description="where the relay listens"
    )
    email__smtp__security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="of the connection to the relay; starttls demands it"
    )
    email__smtp__username: Username = Field("", description="of the login; none: no login")
    email__smtp__password: Password = Field("", repr=False, description="of the login")
    email__smtp__timeout_seconds: Annotated[Integer, Field(ge=1, le=300)] = Field(
        30, description="one step; three of them bound a try that does not send"
    )
    email__resend__api_key: ApiKey = Field("", repr=False, description="needed with resend")
    email__resend__timeout_seconds: Annotated[Integer, Field(ge=1, le=900)] = Field(
        100, description="one request"
    )
    sms__provider: Literal["none", "twilio"] = Field(
        "none", description="how text messages leave; none: every Sms fails for good"
    )
    sms__from: TextSender = Field("", description="their sender; needed with twilio")
    sms__twilio__account_sid: Id = Field("", description="needed with twilio")
    sms__twilio__auth_token: ApiKey = Field("", repr=False, description="needed with twilio")
    vercel_token: ApiKey = Field(
        "", repr=False, description="for RevalidateCache, with the next two; none: it is skipped"
    )
    vercel_team_id: Id = Field("", description="whose project it is")
    vercel_project_id: Id = Field("", description="the project, by id or name")

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
