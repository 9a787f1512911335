"""What is counted, under the names and bounds that `docs/metrics.md` promises.

A counter moves by what was told of, so after its commit. No label holds what a tenant, a workflow
or a third party can make up; the registry is this process's own, and nothing but ours is in it.
"""

from collections.abc import Callable, Container, Iterator
from time import time

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from procession.engine.entry import TRANSITION
from procession.engine.run import HistoryEntry, HistoryOutcome, RunStatus, Step, status
from procession.queue.types import (
    Backlog,
    Claimed,
    Discarded,
    Happened,
    Measured,
    Passed,
    Queued,
    Recorded,
    Released,
    Rescued,
    Stopped,
    Unserved,
)

PREFIX = "procession_workflow"
OTHER = "other"
TYPES = 50  # action types with a series of their own, of one process
TRIGGERS = ("created", "updated", "deleted", "published", "unpublished", "transition", OTHER)
OUTCOMES = {
    HistoryOutcome.SUCCEEDED: "succeeded",
    HistoryOutcome.FAILED: "failed",
    HistoryOutcome.RETRIED: "retried",
    HistoryOutcome.UNKNOWN: "unknown",
    HistoryOutcome.SKIPPED: "skipped",
}
STATUSES = {
    RunStatus.SUCCEEDED: "succeeded",
    RunStatus.FAILED: "failed",
    RunStatus.PARTIALLY_FAILED: "partially_failed",
    RunStatus.CANCELLED: "cancelled",
}
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """What a process publishes. The API's is this; a worker adds what it counts itself."""

    def __init__(self) -> None:
        disable_created_metrics()
        self.registry = CollectorRegistry(auto_describe=False)
        self._queued = Counter(
            f"{PREFIX}_runs_queued",
            "Runs that were committed, by what fired them.",
            ["trigger"],
            registry=self.registry,
        )
        self._by_trigger = {one: self._queued.labels(one) for one in TRIGGERS}

    def text(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self.registry)

    def heard(self, happened: Happened) -> None:
        """Count what any process may tell of."""
        if isinstance(happened, Queued):
            for one in happened.triggers:
                self._by_trigger[_trigger(one)].inc()


def _trigger(name: str) -> str:
    if name.startswith(TRANSITION):
        return "transition"
    lower = name.lower()
    return lower if lower in TRIGGERS else OTHER


class WorkerMetrics:
    """What a worker counts beside the runs that its actions queue."""

    def __init__(self, shared: Metrics, types: Container[str]) -> None:
        self._shared, self._types = shared, types
        self._seen = set[str]()
        registry = shared.registry

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, labels, registry=registry)

        self._claimed = counter("attempts_claimed", "Attempts that were claimed.")
        self._attempts = counter(
            "attempts", "Outcomes that were recorded, by action type.", "action", "outcome"
        )
        self._durations = Histogram(
            f"{PREFIX}_action_duration_seconds",
            "How long attempts took that ran, by action type.",
            ["action"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._lost = counter("attempts_lost", "Lapsed attempts that this worker's rescue ended.")
        self._released = counter(
            "attempts_released", "Attempts that this worker gave back when it stopped."
        )
        self._discarded = counter(
            "attempts_discarded", "Outcomes that came after their lease, and changed nothing."
        )
        self._finished = counter(
            "runs_finished", "Runs that this worker's write ended, by how.", "status"
        )
        self._halted = counter(
            "runs_halted", "Runs of which a halt skipped at least one later action."
        )
        self._by_status = {one: self._finished.labels(name) for one, name in STATUSES.items()}
        self._now = Now()
        registry.register(self._now)

    def watch(self, in_flight: Callable[[], int]) -> None:
        """Ask here how many actions are in flight."""
        self._now.in_flight = in_flight

    def heard(self, happened: Happened) -> None:
        """Count it."""
        match happened:
            case Claimed(claims):
                self._claimed.inc(len(claims))
            case Recorded(claim, step) | Released(claim, step):
                self._ended(claim.type, step)
            case Discarded():
                self._discarded.inc()
            case Rescued(step=step):
                self._lost.inc()
                self._became(step)
            case Unserved(step=step):
                self.attempted(OTHER, "failed")
                self._became(step)
            case Stopped(step=step):
                self._became(step)
            case Passed():
                self._now.passed_at = time()
            case Measured(backlog):
                self._now.backlog = backlog
            case _:
                self._shared.heard(happened)

    def attempted(self, type_: str, outcome: str, seconds: float | None = None) -> None:
        """Count an attempt of this type; without a time when it did not run."""
        action = self._label(type_)
        self._attempts.labels(action, outcome).inc()
        if seconds is not None:
            self._durations.labels(action).observe(seconds)

    def _label(self, type_: str) -> str:
        """The type itself, of the first that are registered here; else `other`."""
        if type_ in self._seen:
            return type_
        if type_ in self._types and len(self._seen) < TYPES:
            self._seen.add(type_)
            return type_
        return OTHER

    def _ended(self, type_: str, step: Step) -> None:
        for entry in step.history:
            if entry.outcome is HistoryOutcome.RELEASED:
                self._released.inc()
            else:
                self.attempted(type_, OUTCOMES.get(entry.outcome, OTHER), _seconds(entry))
        self._became(step)

    def _became(self, step: Step) -> None:
        if step.halted:
            self._halted.inc()
        if step.run.completed_at is not None:
            self._by_status[status(step.run)].inc()


def _seconds(entry: HistoryEntry) -> float | None:
    """How long it ran; None when it did not."""
    if entry.duration_ms is None or entry.outcome is HistoryOutcome.SKIPPED:
        return None
    return entry.duration_ms / 1000


class Now(Collector):
    """The gauges: what is so now, or was when it was measured. None is there before it is known."""

    def __init__(self) -> None:
        self.in_flight: Callable[[], int] = int
        self.passed_at: float | None = None
        self.backlog: Backlog | None = None

    @override
    def collect(self) -> Iterator[Metric]:
        yield _gauge(
            "actions_in_flight", "Attempts whose leases this worker holds.", self.in_flight()
        )
        if self.passed_at is not None:
            text = "When a pass ended without error last, in Unix time."
            yield _gauge("runner_last_pass_timestamp_seconds", text, self.passed_at)
        if (found := self.backlog) is None:
            return
        text = "Runs that could be claimed, when that was measured."
        yield _gauge("due_runs", text, found.due_runs)
        text = "Seconds since the oldest of the due runs was queued; 0 when there is none."
        yield _gauge("oldest_due_run_age_seconds", text, found.oldest_due_age)
        text = "Leases that had lapsed and were not rescued, when that was measured."
        yield _gauge("lapsed_leases", text, found.lapsed_leases)
        text = "Seconds since the oldest of them lapsed; 0 when there is none."
        yield _gauge("oldest_lapsed_lease_age_seconds", text, found.oldest_lapsed_age)
        text = "When the backlog was measured last, by any worker, in Unix time."
        yield _gauge("backlog_measured_timestamp_seconds", text, found.measured_at.timestamp())


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value)
