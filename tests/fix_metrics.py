"""Metrics as a scrape shows them, and a worker whose doings are counted."""

import pytest
from fix_queue import Heard
from prometheus_client.parser import text_string_to_metric_families

from procession.app.metrics import Metrics, WorkerMetrics

PREFIX = "procession_workflow_"


def samples(text):
    """Every series of a scrape, by its name without our prefix and its labels."""
    return {
        (one.name.removeprefix(PREFIX), *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


class Counted(Heard):
    """What a worker tells of, heard by a test and counted too."""

    def __init__(self, *types):
        super().__init__()
        self.metrics = Metrics()
        self.of_worker = WorkerMetrics(self.metrics, types)

    def __call__(self, happened):
        self.of_worker.heard(happened)
        super().__call__(happened)

    def now(self):
        return samples(self.metrics.text().decode())

    def moved(self):
        """The counters that are not 0."""
        return {
            key: value
            for key, value in self.now().items()
            if value and (key[0].endswith("_total") or key[0].endswith("_count"))
        }


@pytest.fixture
def counted(worked):
    """What the workers of a test count; of all of them together."""
    worked.heard = Counted("Safe", "Plain")
    return worked.heard
