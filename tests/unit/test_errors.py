import pytest

from procession.engine.errors import (
    CONFLICTS,
    ConflictError,
    Fault,
    ForbiddenError,
    NotFoundError,
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
