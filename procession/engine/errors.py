"""What goes wrong for a caller, in one tree.

ProcessionError                     500 internal-error
├── ValidationFailedError           400 validation-failed, with every fault at once
├── MalformedJsonError              400 malformed-json
├── MalformedRequestError           400 malformed-request
├── TenantRequiredError             400 tenant-required
├── UnauthenticatedError            401 unauthenticated, whatever was wrong with the credential
├── ForbiddenError                  403 forbidden, naming the capability
├── TenantMismatchError             403 tenant-mismatch
├── NotFoundError                   404 run-not-found, entry-not-found, …
├── MethodNotAllowedError           405 method-not-allowed
├── BodyTooSlowError                408 body-too-slow
├── ConflictError                   409 one code for each state that forbids it
├── VersionMismatchError            412 version-mismatch
├── BodyTooLargeError               413 body-too-large
├── UnsupportedMediaTypeError       415 unsupported-media-type
├── IdempotencyKeyReusedError       422 idempotency-key-reused
├── TooManyAttemptsError            429 too-many-attempts
├── HeadersTooLargeError            431 headers-too-large
├── DatabaseUnavailableError        503 database-unavailable
└── IdentityProviderUnavailableError 503 identity-provider-unavailable

The docstring of a class is the title of its problem, and never changes for a code. The detail is
for this one occurrence. No text of a library gets into either. `docs/errors.md` has a section for
each code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from procession.engine.conflicts import CONFLICTS

Thing = TypeVar("Thing")

MOST_FAULTS = 100  # in one answer: a long list of broken items is no reason for a long answer


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with what was sent: the path of the field, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Concern:
    """What a save warns of and does not refuse."""

    field: str
    message: str


class ProcessionError(Exception):
    """Something went wrong on our side."""

    status = 500
    code = "internal-error"
    headers: Mapping[str, str] = {}

    def __init__(
        self, detail: str | None = None, extras: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail
        self.extras = dict(extras or {})

    @property
    def title(self) -> str:
        return (type(self).__doc__ or self.code).removesuffix(".")


class ValidationFailedError(ProcessionError):
    """The request is not valid."""

    status = 400
    code = "validation-failed"

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"{one.name}: {one.reason}" for one in faults[:3]))
        self.faults = tuple(faults)


class MalformedJsonError(ProcessionError):
    """The body is not valid JSON."""

    status = 400
    code = "malformed-json"


class MalformedRequestError(ProcessionError):
    """What was sent is not HTTP."""

    status = 400
    code = "malformed-request"
    headers: Mapping[str, str] = {"Connection": "close"}


class TenantRequiredError(ProcessionError):
    """The request names no tenant."""

    status = 400
    code = "tenant-required"


class UnauthenticatedError(ProcessionError):
    """The credential is missing or not accepted."""

    status = 401
    code = "unauthenticated"
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class ForbiddenError(ProcessionError):
    """The caller lacks the capability."""

    status = 403
    code = "forbidden"

    def __init__(self, capability: str) -> None:
        needed = f"the capability {capability}" if capability != "*" else "the control token"
        super().__init__(f"This needs {needed}.", {"capability": capability})


class TenantMismatchError(ProcessionError):
    """The tenant is not the caller's."""

    status = 403
    code = "tenant-mismatch"


NOT_FOUND = (
    *("route", "workflow", "version", "run", "action", "entry", "content-type", "transition"),
    *("connector", "request", "key", "role", "tenant", "bulk"),
)


class NotFoundError(ProcessionError):
    """The thing does not exist."""

    status = 404

    def __init__(self, what: str, detail: str | None = None) -> None:
        self.what = what.replace(" ", "-")
        self.code = f"{self.what}-not-found"
        super().__init__(detail)

    @property
    def title(self) -> str:
        return f"The {self.what.replace('-', ' ')} does not exist"


def found(thing: Thing | None, what: str) -> Thing:
    """The thing; raises when there is none."""
    if thing is None:
        raise NotFoundError(what)
    return thing


class MethodNotAllowedError(ProcessionError):
    """The route does not take this method."""

    status = 405
    code = "method-not-allowed"


class BodyTooSlowError(ProcessionError):
    """The body did not arrive in time."""

    status = 408
    code = "body-too-slow"
    headers: Mapping[str, str] = {"Connection": "close"}  # the rest of it is not waited for


class ConflictError(ProcessionError):
    """The state of the thing does not allow it."""

    status = 409

    def __init__(
        self, code: str, detail: str | None = None, extras: Mapping[str, object] | None = None
    ) -> None:
        self.code = code
        super().__init__(detail, extras)

    @property
    def title(self) -> str:
        return CONFLICTS[self.code]


class VersionMismatchError(ProcessionError):
    """The version is another one by now."""

    status = 412
    code = "version-mismatch"

    def __init__(self, version: int) -> None:  # 0 where there is none
        detail = f"It is at version {version}." if version else "There is no such entry."
        super().__init__(detail, {"version": version})


class BodyTooLargeError(ProcessionError):
    """The body is too large."""

    status = 413
    code = "body-too-large"


class UnsupportedMediaTypeError(ProcessionError):
    """The body is not sent as application/json."""

    status = 415
    code = "unsupported-media-type"


class IdempotencyKeyReusedError(ProcessionError):
    """The idempotency key was used with another body."""

    status = 422
    code = "idempotency-key-reused"


class TooManyAttemptsError(ProcessionError):
    """Too many credentials of this address were refused."""

    status = 429
    code = "too-many-attempts"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Try again in {seconds} s, with a credential that works.")
        self.headers = {"Retry-After": str(seconds)}


class HeadersTooLargeError(ProcessionError):
    """The address and the headers are too large."""

    status = 431
    code = "headers-too-large"
    headers: Mapping[str, str] = {"Connection": "close"}


class DatabaseUnavailableError(ProcessionError):
    """The database does not answer."""

    status = 503
    code = "database-unavailable"
    headers: Mapping[str, str] = {"Retry-After": "5"}


class IdentityProviderUnavailableError(ProcessionError):
    """The keys of the identity provider are out of reach."""

    status = 503
    code = "identity-provider-unavailable"
    headers: Mapping[str, str] = {"Retry-After": "30"}  # so long its keys are not asked for again
