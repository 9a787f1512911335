import pytest

from procession.engine.access import (
    CAPABILITIES,
    EVERYTHING,
    effective,
    unknown_capabilities,
)
from procession.engine.names import is_entry_id, is_name, is_slug


def test_an_admin_holds_all_but_the_response_bodies():
    assert set(CAPABILITIES) - effective(["Admin"], {}) == {"view_webhook_response_bodies"}


def test_roles_add_up_and_a_role_of_elsewhere_gives_nothing():
    stored = {"Auditor": ["view_audit_log"], "Viewer": ["manage_access"], "Other": ["*"]}

    held = effective(["Auditor", "Viewer", "Gone"], stored)

    assert held == {"view_audit_log", "manage_access", "view_workflow_runs", "read_entries"}


def test_a_star_is_every_capability_and_an_unknown_one_is_none():
    assert effective(["Own"], {"Own": ["*"]}) == EVERYTHING
    assert effective(["Own"], {"Own": ["of_an_older_release"]}) == frozenset()


def test_an_unknown_capability_is_named_by_its_place():
    faults = unknown_capabilities(["*", "read_entries", "fly"])

    assert [one.name for one in faults] == ["capabilities[2]"]


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (is_name, ["A", "a_1", "A" * 64], ["", "1a", "_a", "a-b", "A" * 65, "é", "a\n"]),
        (is_entry_id, ["1", "a.b:c-d_e", "x" * 200], ["", "a b", "a/b", "x" * 201, "a\n"]),
        (is_slug, ["a", "0-0", "a" * 40], ["", "-a", "A", "a" * 41, "a_b", "a\n"]),
    ],
)
def test_names_have_a_shape(check, good, bad):
    assert all(check(one) for one in good)
    assert not any(check(one) for one in bad)
