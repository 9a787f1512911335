"""What a worker takes on: claims for its free slots, and what of them has not begun yet.

A worker with free slots claims whenever the bell rings. While more is due than it has slots for, it
claims along with the outcomes that free them: one transaction writes those and leases the next.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from time import monotonic, time_ns
from uuid import UUID

from procession.queue.claim import Wanted, claim
from procession.queue.leases import Held
from procession.queue.pace import Pace, in_time
from procession.queue.pending import Pending, write
from procession.queue.pool import Connection
from procession.queue.types import Claim, Claimed, Passed, Tell, nobody

# Seconds. Documents may be large, with a body in each action that waits, and twenty of those take a
# claim longer than its leases last: it is given up before, and asks for fewer. One that is made
# beside outcomes holds the rows of these, whose leases are not renewed meanwhile.
WITHIN, BESIDE = 8.0, 3.0

# Of runs that go on and were not claimed at once: another worker may hear of them. What is claimed
# in the same transaction gets its job from the claim, which notifies nobody.
QUEUE = """
    insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, scheduled_at)
    select run.tenant, 'attempt', 'run:' || run.id, 'run:' || run.id,
           jsonb_build_object('run', run.id, 'ordinal', run.due_ordinal), run.due_at
    from unnest(%(tenants)s::text[], %(ids)s::uuid[]) as written (tenant, id)
    join run on run.tenant = written.tenant and run.id = written.id
    where run.due_at is not null
    on conflict (queueing_lock) where status = 'todo' do nothing
"""


async def queue(conn: Connection, claims: list[Claim]) -> None:
    """Make the jobs of the runs of these claims, as far as they are due."""
    if claims:
        keys = {"tenants": [one.tenant.slug for one in claims], "ids": [one.id for one in claims]}
        await conn.execute(QUEUE, keys)


class Intake:
    """The claims of one worker, in turn of the tenants, up to their beginning."""

    def __init__(self, wanted: Wanted, slots: int, held: Held, tell: Tell = nobody) -> None:
        self.slots = slots  # attempts at a time; none where the runner is switched off
        self.is_open = True
        self._wanted = wanted
        self._held = held
        self._tell = tell
        self._unbegun = deque[Claim]()
        self._served_last = ""
        self._pace = Pace(slots)
        self._has_more = False  # as far as the last claim can tell
        self._bell = asyncio.Event()

    def ring(self) -> None:
        """There may be something to claim, or to begin."""
        self._bell.set()

    def listen(self) -> None:
        """Before looking: what rings from here on ends the next rest."""
        self._bell.clear()

    async def rest(self, seconds: float) -> None:
        """Until the bell rings, or for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """Claim and begin nothing more."""
        self.is_open = False
        self.ring()

    @property
    def free(self) -> int:
        """The slots that nothing is held for."""
        return self.slots - len(self._held)

    def next(self) -> Claim | None:
        """What is to begin now."""
        return self._unbegun.popleft() if self._unbegun and self.is_open else None

    async def claim(self, conn: Connection) -> bool:
        """Lease what is due for all free slots; False when nothing is."""
        began = time_ns()
        claims = await self._claim(conn, self.free, WITHIN)
        self._take(claims, began)
        return bool(claims)

    def may_follow(self, group: Iterable[Pending]) -> bool:
        """Whether there is something to claim in place of these, as far as is known."""
        return self.is_open and (self._has_more or any(one.goes_on for one in group))

    async def write(self, conn: Connection, group: list[Pending], wait: str) -> set[UUID]:
        """Write these and, for the slots that this frees, lease what is due: both, or neither."""
        began = time_ns()
        async with conn.transaction():
            written = await write(conn, group, wait, queues=False)
            claims = await self._claim(conn, len(written), BESIDE) if written else []
            gone_on = {one.id for one in claims}
            left = [one.claim for one in group if one.due_at and one.claim.id not in gone_on]
            await queue(conn, [one for one in left if one.id in written])
        for one in group:
            if one.claim.id in written:
                self._held.forget(one.claim.token)
        self._take(claims, began)
        if len(claims) < len(written):
            self.ring()  # nothing else is due: it is time to see what will be
        return written

    async def _claim(self, conn: Connection, slots: int, within: float) -> list[Claim]:
        """Claim for so many slots, or fewer while that takes long; raises TimeoutError."""
        self._has_more = False
        ask, began = self._pace.ask(slots), monotonic()
        claiming = claim(conn, self._wanted, ask.count, self._served_last, ask.largest)
        try:
            claims = await in_time(conn, claiming, within)
        except TimeoutError:
            self._pace.gave_up(ask, within, was_hurried=within < WITHIN)
            raise
        self._pace.took(ask, monotonic() - began, found=bool(claims))
        self._has_more = len(claims) == ask.count
        return claims

    def _take(self, claims: list[Claim], began: int) -> None:
        self._tell(Passed())
        if claims:
            self._held.add(claims)
            self._tell(Claimed(tuple(claims), began))
            self._served_last = claims[-1].tenant.slug
            self._unbegun.extend(claims)
