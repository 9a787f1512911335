import re
from pathlib import Path

import pytest

from procession.engine.conflicts import CONFLICTS
from procession.engine.errors import (
    NOT_FOUND,
    ConflictError,
    Fault,
    ForbiddenError,
    NotFoundError,
    ProcessionError,
    UnauthenticatedError,
    ValidationFailedError,
    VersionMismatchError,
)


def test_a_title_is_the_docstring_without_its_stop():
    error = UnauthenticatedError()

    assert (error.status, error.code) == (401, "unauthenticated")
    assert error.title == "The credential is missing or not accepted"
    assert error.headers == {"WWW-Authenticate": "Bearer"}


def test_what_is_not_found_is_in_code_and_title():
    error = NotFoundError("content-type")

    assert (error.status, error.code) == (404, "content-type-not-found")
    assert error.title == "The content type does not exist"


@pytest.mark.parametrize("code", CONFLICTS)
def test_a_conflict_has_a_title_of_its_own(code):
    error = ConflictError(code, "Why.", {"haltedBy": 0})

    assert (error.status, error.code, error.title) == (409, code, CONFLICTS[code])
    assert (error.detail, error.extras) == ("Why.", {"haltedBy": 0})


def test_all_faults_are_kept():
    faults = [Fault(f"data.{name}", "is no number") for name in "ABCDE"]

    assert ValidationFailedError(faults).faults == tuple(faults)


def test_a_refusal_names_what_is_lacking():
    assert ForbiddenError("manage_entries").extras == {"capability": "manage_entries"}
    assert VersionMismatchError(7).extras == {"version": 7}


# As the contract has them, and beside it those of commands for many runs and of big requests.
CODES = {
    400: "validation-failed malformed-json malformed-request tenant-required",
    401: "unauthenticated",
    403: "forbidden tenant-mismatch",
    404: """route-not-found workflow-not-found version-not-found run-not-found action-not-found
        entry-not-found content-type-not-found transition-not-found connector-not-found
        request-not-found key-not-found role-not-found tenant-not-found bulk-not-found""",
    405: "method-not-allowed",
    408: "body-too-slow",
    409: """run-finished run-cancelled run-changed run-rolled-back action-succeeded
        action-in-flight action-skipped-behind-halt nothing-succeeded everything-succeeded
        workflow-disabled workflow-deleted too-many-queued-runs conditions-not-met
        transition-not-allowed content-type-in-use connector-in-use connector-disabled
        role-in-use role-built-in bulk-finished too-many-bulks
        idempotency-key-in-progress idempotency-answer-too-long""",
    412: "version-mismatch",
    413: "body-too-large",
    415: "unsupported-media-type",
    422: "idempotency-key-reused",
    429: "too-many-attempts",
    431: "headers-too-large",
    500: "internal-error",
    503: "database-unavailable identity-provider-unavailable",
}


def titles():
    """Every code there is: its status and its title."""
    plain = [ProcessionError, *ProcessionError.__subclasses__()]
    plain = [one for one in plain if one not in {ConflictError, NotFoundError}]
    missing = [NotFoundError(what) for what in NOT_FOUND]
    conflicts = [ConflictError(code) for code in CONFLICTS]
    return {one.code: (one.status, (one.__doc__ or "").removesuffix(".")) for one in plain} | {
        one.code: (one.status, one.title) for one in (*missing, *conflicts)
    }


def test_the_codes_are_those_of_the_contract():
    contract = {code: status for status, codes in CODES.items() for code in codes.split()}

    assert {code: status for code, (status, _) in titles().items()} == contract


def test_each_code_has_its_section_under_its_status_that_begins_with_its_title():
    page = (Path(__file__).parents[2] / "docs/errors.md").read_text(encoding="utf-8")
    sections = {}
    for chapter in re.split(r"^## (?=[0-9])", page, flags=re.MULTILINE)[1:]:
        status, *found = re.split(r"^### ", chapter, flags=re.MULTILINE)
        for one in found:
            code, _, text = one.partition("\n")
            sections[code] = (int(status), text.strip())

    assert sections.keys() == titles().keys()
    for code, (status, title) in titles().items():
        assert (code, sections[code][0]) == (code, status)
        assert sections[code][1].startswith(title), (code, title)


def test_only_codes_that_there_are_are_answered():
    root = Path(__file__).parents[2] / "procession"
    code = "".join(one.read_text(encoding="utf-8") for one in root.rglob("*.py"))
    missing = {one.replace(" ", "-") for one in re.findall(r'NotFoundError\("([^"]+)"', code)}

    assert missing <= set(NOT_FOUND)
    assert set(re.findall(r'ConflictError\("([^"]+)"', code)) <= CONFLICTS.keys()
