"""What a span of work cost: commits and WAL by Postgres' own counters, CPU by the kernel's.

CPU for each attempt is what survives a noisy neighbour; wall clock is not, so `others_cores` says
what the rest of the machine burnt meanwhile, and a spoilt run can be told from a clean one.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    at: float
    commits: int
    wal: float
    ours: float
    postgres: float
    machine: float


def _stat(pid: int | str) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _cpu_of_cluster(postmaster: int) -> float:
    """CPU seconds of the postmaster's live children, and of reaped ones through the postmaster."""
    total = 0
    for pid in (one.name for one in Path("/proc").iterdir() if one.name.isdigit()):
        try:
            fields = _stat(pid)
        except OSError:
            continue
        if int(pid) == postmaster:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == postmaster:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _machine() -> float:
    values = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(values) - values[3] - values[4]) / TICKS


def wait_quiet(limit: float = 20.0, share: float = 0.3) -> None:
    """Wait, at most `limit` seconds, until the machine is mostly idle."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        before, at = _machine(), time.monotonic()
        time.sleep(0.5)
        if (_machine() - before) / (time.monotonic() - at) < share:
            return


class Meter:
    """Reads before and after; `stop` gives the difference for each of `count` things done."""

    def __init__(self, url: str) -> None:
        self.conn = psycopg.connect(url, autocommit=True)
        backend = self.conn.execute("select pg_backend_pid()").fetchone()[0]
        self.postmaster = int(_stat(backend)[1])
        self.before = self.read()

    def read(self) -> Reading:
        time.sleep(1.1)  # backends report their counters once a second
        self.conn.execute("select pg_stat_clear_snapshot()")
        commits = self.conn.execute(
            "select xact_commit from pg_stat_database where datname = current_database()"
        ).fetchone()[0]
        wal = self.conn.execute(
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
        ).fetchone()[0]
        ours = sum(map(int, _stat("self")[11:15])) / TICKS
        cluster = _cpu_of_cluster(self.postmaster)
        return Reading(time.monotonic(), commits, float(wal), ours, cluster, _machine())

    def stop(self, count: int) -> dict[str, float]:
        after, before = self.read(), self.before
        self.conn.close()
        ours, cluster = after.ours - before.ours, after.postgres - before.postgres
        others = (after.machine - before.machine - ours - cluster) / (after.at - before.at)
        return {
            "commits": round((after.commits - before.commits) / count, 2),
            "wal_bytes": round((after.wal - before.wal) / count),
            "client_cpu_ms": round(1000 * ours / count, 3),
            "postgres_cpu_ms": round(1000 * cluster / count, 3),
            "others_cores": round(max(0.0, others), 2),
        }


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
