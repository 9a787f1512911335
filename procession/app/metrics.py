"""What is counted, under the names and bounds that `docs/metrics.md` promises.

A counter moves by what was told of, so after its commit. No label holds what a tenant, a workflow
or a third party can make up. The registry is this process's own, and nothing but ours is in it.

The numbers are plain ones, and made into Prometheus' when they are read: all is told of on the
event loop, so they need no locks, which would cost an attempt more than counting it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from time import time

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
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
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
BOUNDS = (*map(str, BUCKETS), "+Inf")


class Metrics(Collector):
    """What a process publishes. The API's is this; a worker adds what it counts itself."""

    def __init__(self) -> None:
        self._queued: dict[str, int] = dict.fromkeys(TRIGGERS, 0)
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def text(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self.registry)

    def heard(self, happened: Happened) -> None:
        """Count what any process may tell of."""
        if isinstance(happened, Queued):
            for one in happened.triggers:
                self._queued[_trigger(one)] += 1

    @override
    def collect(self) -> Iterator[Metric]:
        text = "Runs that were committed, by what fired them."
        yield _counter(
            "runs_queued", text, {(one,): n for one, n in self._queued.items()}, "trigger"
        )


def _trigger(name: str) -> str:
    if name.startswith(TRANSITION):
        return "transition"
    lower = name.lower()
    return lower if lower in TRIGGERS else OTHER


@dataclass(slots=True)
class Durations:
    """How long attempts of one type took."""

    total: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))

    def add(self, seconds: float) -> None:
        self.total += seconds
        self.counts[bisect_left(BUCKETS, seconds)] += 1


class WorkerMetrics(Collector):
    """What a worker counts beside the runs that its actions queue.

    All that it may count is there from the start, at 0: of a series that begins at what happened
    first, nobody sees that it rose.
    """

    def __init__(self, shared: Metrics, types: Sequence[str]) -> None:
        self._shared = shared
        labels = (*types[:TYPES], OTHER)
        self._attempts = Counter(dict.fromkeys(product(labels, OUTCOMES.values()), 0))
        self._durations = {one: Durations() for one in labels}
        self._finished = dict.fromkeys(STATUSES, 0)
        self._claimed = self._lost = self._released = self._discarded = self._halted = 0
        self._in_flight: Callable[[], int] = int
        self._passed_at: float | None = None
        self._backlog: Backlog | None = None
        shared.registry.register(self)

    def watch(self, in_flight: Callable[[], int]) -> None:
        """Ask here how many actions are in flight."""
        self._in_flight = in_flight

    def heard(self, happened: Happened) -> None:
        """Count it."""
        match happened:
            case Recorded() | Released():
                self._ended(happened.claim.type, happened.step)
            case Passed():
                self._passed_at = time()
            case Claimed():
                self._claimed += len(happened.claims)
            case Discarded():
                self._discarded += 1
            case Rescued():
                self._lost += 1
                self._became(happened.step)
            case Unserved():
                self.attempted(OTHER, "failed")
                self._became(happened.step)
            case Stopped():
                self._became(happened.step)
            case Measured():
                self._backlog = happened.backlog
            case _:
                self._shared.heard(happened)

    def attempted(self, type_: str, outcome: str, seconds: float | None = None) -> None:
        """Count an attempt of this type; without a time when it did not run."""
        action = type_ if type_ in self._durations else OTHER
        self._attempts[action, outcome] += 1
        if seconds is not None:
            self._durations[action].add(seconds)

    def _ended(self, type_: str, step: Step) -> None:
        for entry in step.history:
            if entry.outcome is HistoryOutcome.RELEASED:
                self._released += 1
            else:
                self.attempted(type_, OUTCOMES.get(entry.outcome, OTHER), _seconds(entry))
        self._became(step)

    def _became(self, step: Step) -> None:
        self._halted += bool(step.halted)
        if step.run.completed_at is not None:
            self._finished[status(step.run)] += 1

    @override
    def collect(self) -> Iterator[Metric]:
        yield from self._counters()
        text = "Attempts whose leases this worker holds."
        yield _gauge("actions_in_flight", text, self._in_flight())
        if self._passed_at is not None:
            text = "When a pass ended without error last, in Unix time."
            yield _gauge("runner_last_pass_timestamp_seconds", text, self._passed_at)
        if self._backlog is not None:
            yield from _gauges(self._backlog)

    def _counters(self) -> Iterator[Metric]:
        for name, number, text in (
            ("claimed", self._claimed, "Attempts that were claimed."),
            ("lost", self._lost, "Lapsed attempts that this worker's rescue ended."),
            ("released", self._released, "Attempts that this worker gave back when it stopped."),
            ("discarded", self._discarded, "Outcomes that came after their lease."),
        ):
            yield _counter(f"attempts_{name}", text, {(): number})
        text = "Outcomes that were recorded, by action type."
        yield _counter("attempts", text, self._attempts, "action", "outcome")
        text = "How long attempts took that ran, by action type."
        durations = HistogramMetricFamily(
            f"{PREFIX}_action_duration_seconds", text, labels=["action"]
        )
        for action, one in self._durations.items():
            buckets = list(zip(BOUNDS, map(float, accumulate(one.counts)), strict=True))
            durations.add_metric([action], buckets, one.total)
        yield durations
        text = "Runs that this worker's write ended, by how."
        finished = {(STATUSES[one],): number for one, number in self._finished.items()}
        yield _counter("runs_finished", text, finished, "status")
        text = "Runs of which a halt skipped at least one later action."
        yield _counter("runs_halted", text, {(): self._halted})


def _seconds(entry: HistoryEntry) -> float | None:
    """How long it ran; None when it did not."""
    if entry.duration_ms is None or entry.outcome is HistoryOutcome.SKIPPED:
        return None
    return entry.duration_ms / 1000


def _gauges(found: Backlog) -> Iterator[Metric]:
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


def _counter(name: str, text: str, numbers: Mapping[tuple[str, ...], int], *labels: str) -> Metric:
    metric = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for values, number in numbers.items():
        metric.add_metric(values, number)
    return metric
