"""What the settings say of retention reaches the sweep and the list of runs alike."""

from datetime import timedelta

import pytest

from procession.app.checks import read
from procession.app.compose import retention, windows

DAY = timedelta(days=1)


@pytest.fixture
def settings(monkeypatch):
    """Settings with these variables."""

    def make(**variables):
        monkeypatch.setenv("DATABASE_URL", "postgresql://db/app")
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        return read("migrate")

    return make


def test_each_class_has_its_window(settings):
    given = settings(WORKFLOWS__RETENTION__SUCCEEDED=3, WORKFLOWS__RETENTION__FAILED=30)

    for found in (retention(given), windows(given)):
        assert (found.succeeded, found.failed) == (3 * DAY, 30 * DAY)


@pytest.mark.parametrize("days", [0, -1, -36500])
def test_zero_days_or_less_keep_for_ever(settings, days):
    found = windows(
        settings(
            WORKFLOWS__RETENTION__SUCCEEDED=days,
            WORKFLOWS__RETENTION__FAILED=days,
            WEBHOOKS__DELIVERY_LOG_RETENTION_DAYS=days,
        )
    )

    assert (found.succeeded, found.failed, found.deliveries) == (None, None, None)
    assert not {"succeededRuns", "failedRuns", "deliveries"} & {one.name for one in found.removals}


def test_switched_off_it_removes_no_run_and_all_else(settings):
    given = settings(WORKFLOWS__RETENTION__ENABLED="no")

    assert (retention(given).succeeded, retention(given).failed) == (None, None)
    names = {one.name for one in windows(given).removals}
    assert names == {
        *("responseBodies", "deliveries", "answers", "bulkCommands"),
        *("versions", "jobs", "workers"),
    }
