"""Rest for a host that keeps failing: a breaker for each pair of tenant and host.

It lives in the memory of each process, and nothing that matters depends on it: a call that it
refuses is tried again by the durable queue.
"""

from collections import OrderedDict, deque
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

import circuitbreaker  # pyright: ignore[reportMissingTypeStubs]  it has none
from circuitbreaker import (  # pyright: ignore[reportMissingTypeStubs]
    STATE_HALF_OPEN,
    STATE_OPEN,
    CircuitBreaker,
)
from typing_extensions import override

from procession.outbound.faults import AddressRefused, BreakerOpen, Fault, NameNotLookedUp

PAIRS = 1_000
FAILING = frozenset({408, 502, 503, 504})
TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """When a breaker opens, and for how long."""

    failures: int = 5  # 0: never
    window: int = 10
    sampling: timedelta = timedelta(seconds=60)
    rest: timedelta = timedelta(seconds=30)


@dataclass(slots=True)
class Call:
    """One call under a breaker, with all its tries."""

    era: int  # that it began in; what a call of an earlier one says is old news
    is_probe: bool
    good: bool | None = None  # None: it does not count


class Breaker(CircuitBreaker):
    """Of one tenant and host."""

    def __init__(self, rule: BreakerRule, host: str) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            failure_threshold=rule.failures, recovery_timeout=rule.rest.total_seconds(), name=host
        )
        self._rule = rule
        self._host = host
        self._calls = deque[tuple[float, bool]](maxlen=rule.window)  # when it ended, and how
        self._era = 0
        self._probe: Call | None = None

    @contextmanager
    def call(self) -> Generator[Call]:
        """Let a call through; raises BreakerOpen instead while the host rests."""
        state = self.state
        if state == STATE_OPEN or (state == STATE_HALF_OPEN and self._probe is not None):
            raise BreakerOpen(self._host)
        call = Call(self._era, is_probe=state == STATE_HALF_OPEN)
        if call.is_probe:
            self._probe = call
        try:
            yield call
        except (AddressRefused, NameNotLookedUp):
            raise
        except Fault:
            call.good = False
            raise
        finally:
            self._count(call)

    def _count(self, call: Call) -> None:
        if call is self._probe:
            self._probe = None
        if call.good is None or call.era != self._era:
            return
        if call.is_probe and call.good:
            self.reset()
        elif call.is_probe:
            self._trip()
        else:
            self._note(good=call.good)

    def _note(self, *, good: bool) -> None:
        now = circuitbreaker.monotonic()
        self._calls.append((now, good))
        while self._calls[0][0] <= now - self._rule.sampling.total_seconds():
            self._calls.popleft()
        if sum(not good for _, good in self._calls) >= self._rule.failures:
            self._trip()

    def _trip(self) -> None:
        self._state = STATE_OPEN
        self._opened = circuitbreaker.monotonic()
        self._begin_era()

    @override
    def reset(self) -> None:
        super().reset()
        self._begin_era()

    def _begin_era(self) -> None:
        self._era += 1
        self._calls.clear()


class Breakers:
    """The breakers of a process; those idle longest are forgotten when there are too many."""

    def __init__(self, rule: BreakerRule) -> None:
        self._rule = rule
        self._known = OrderedDict[tuple[str, str], Breaker]()

    def call(self, tenant: str, host: str) -> AbstractContextManager[Call]:
        """A call of the tenant to the host, from its first try to its last."""
        if not self._rule.failures:
            return nullcontext(Call(0, is_probe=False))
        pair = (tenant, host)
        breaker = self._known.get(pair)
        if breaker is None:
            if len(self._known) >= PAIRS:
                for _ in range(PAIRS // 10):
                    self._known.popitem(last=False)
            breaker = self._known[pair] = Breaker(self._rule, host)
        self._known.move_to_end(pair)
        return breaker.call()


def is_good(status: int, *, too_patient: bool) -> bool | None:
    """What a call's last answer says of the host; None when it says nothing."""
    if status == TOO_MANY or too_patient:  # it is well, and asks for less
        return None
    return status not in FAILING
