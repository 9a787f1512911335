"""What `make bench` runs: Procession and bare Procrastinate in turn, on one Postgres, as ratios.

usage: run.py [--runs 10000] [--rounds 2] [--quick] [--reads]. Rows go to standard output as JSON,
the summary behind them as a table. The Postgres is the embedded one with its defaults (fsync and
synchronous_commit on) in a temporary folder, or that of BENCH_DATABASE_URL.
"""

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from setup import say

from procession.app.local import serve

HERE = Path(__file__).parent
SAVES = "saves of an entry that queue a run"
SWEEP = "sweep of finished runs, two attempts each"
DELIVERIES = "signed and recorded webhook deliveries, concurrency 20"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    script: str
    arguments: tuple[int, ...]


def cases(runs: int, saves: int) -> list[Case]:
    return [
        Case("bare Procrastinate, empty tasks, concurrency 20", "bare.py", (runs, 20)),
        Case("Procession, runs of one action, concurrency 20", "ours.py", (runs, 1, 20)),
        Case("Procession, runs of one action, concurrency 10", "ours.py", (runs, 1, 10)),
        Case("Procession, runs of one action, concurrency 1", "ours.py", (runs // 5, 1, 1)),
        Case("Procession, runs of ten actions, concurrency 20", "ours.py", (runs // 10, 10, 20)),
        Case(DELIVERIES, "deliveries.py", (runs // 2, 20)),
        Case("commit to first byte, idle", "latency.py", (saves,)),
        Case(SAVES, "saves.py", (saves * 5,)),
        Case(SWEEP, "sweep.py", (runs * 5,)),
        Case("the engine alone, a run of fifty actions", "engine.py", (runs,)),
    ]


@contextlib.contextmanager
def server() -> Generator[str]:
    if given := os.environ.get("BENCH_DATABASE_URL"):
        yield given
        return
    with (
        tempfile.TemporaryDirectory(prefix="procession-bench-") as folder,
        serve(Path(folder) / "postgres", ["-c", "max_connections=100"]) as local,
    ):
        Path(folder).chmod(0o755)
        yield local.url


def beside(url: str) -> str:
    """The address of the bench's database on that server."""
    return urlsplit(url)._replace(path="/procession_bench").geturl()


def renew(url: str) -> None:
    """Make the bench's database anew."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("drop database if exists procession_bench with (force)")
        conn.execute("create database procession_bench")


def measured(url: str, case: Case) -> dict[str, float]:
    """One row, from a process and a database of its own."""
    renew(url)
    row = json.loads(output(url, case))
    print(json.dumps({"case": case.name, **row}), flush=True)
    return row


def output(url: str, case: Case) -> bytes:
    """What the script of the case prints."""
    command = [sys.executable, str(HERE / case.script)]
    if case.script != "engine.py":
        command.append(beside(url))
    command += map(str, case.arguments)
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def read(url: str, runs: int) -> None:
    """Seed so many runs and ask the API for each kind of list."""
    renew(url)
    rows = [json.loads(line) for line in output(url, Case("", "reads.py", (runs,))).splitlines()]
    print(f"\n{runs} runs\n\n| read | p50 ms | p95 ms |\n|---|---|---|")
    for row in rows:
        print(f"| {row['case']} | {row['p50_ms']} | {row['p95_ms']} |")
    if over := [row["case"] for row in rows if row["over"]]:
        sys.exit(f"Over the limit: {', '.join(over)}")


def best(rows: list[dict[str, float]]) -> dict[str, float]:
    """The row that the machine disturbed least."""
    if "per_second" in rows[0]:
        return max(rows, key=lambda row: row["per_second"])
    if "runs_per_second" in rows[0]:
        return max(rows, key=lambda row: row["runs_per_second"])
    waited = "p50_ms" if "p50_ms" in rows[0] else "cpu_ms"
    return min(rows, key=lambda row: row[waited])


def report(rows: dict[str, list[dict[str, float]]]) -> None:
    bare = next(best(found)["per_second"] for name, found in rows.items() if "bare" in name)
    print(f"\n{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| case | per second | to bare | commits | WAL bytes | CPU ms, ours + Postgres |")
    print("|---|---|---|---|---|---|")
    for name, found in rows.items():
        row = best(found)
        if "per_second" in row:
            print(
                f"| {name} | {row['per_second']} | {row['per_second'] / bare:.2f} |"
                f" {row['commits']} | {row['wal_bytes']} |"
                f" {row['client_cpu_ms']} + {row['postgres_cpu_ms']} |"
            )
        elif "runs_per_second" in row:
            longest = f"the longest transaction {row['longest_ms']} ms"
            print(f"| {name} | {row['runs_per_second']}, {longest} | | | | |")
        elif "cpu_ms" in row:
            print(f"| {name} | | | | | {row['cpu_ms']} |")
        else:
            print(f"| {name} | p50 {row['p50_ms']} ms, p95 {row['p95_ms']} ms | | | | |")
    row = best(rows[SAVES])
    print(
        f"\nThe same rows by hand and a bare defer, in turn with the saves: p50"
        f" {row['bare_p50_ms']} ms, p95 {row['bare_p95_ms']} ms. A save takes {row['to_bare']} of"
        f" that at the median, {row['mean_to_bare']} in the mean."
    )
    row = best(rows[DELIVERIES])
    print(
        f"\nThe posts of the deliveries alone, by a bare loop: {row['posts_per_second']} a second,"
        f" {row['posts_cpu_ms']} ms CPU each.\nA delivery costs {row['beyond_cpu_ms']} ms of ours"
        " beyond that."
    )
    print("\nFigures but the first two columns are for each attempt (bare: for each job).")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="make bench")
    parser.add_argument("--runs", type=int, default=10_000, help="preloaded, for each case")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many is shown")
    parser.add_argument("--quick", action="store_true", help="a tenth of it, once")
    parser.add_argument(
        "--reads", action="store_true", help="only what the API reads, of a hundred times as many"
    )
    given = parser.parse_args()
    runs, rounds = (given.runs // 10, 1) if given.quick else (given.runs, given.rounds)
    rows: dict[str, list[dict[str, float]]] = {}
    with server() as url:
        if given.reads:
            read(url, runs * 100)
            return
        for _ in range(rounds):
            for case in cases(runs, 50 if given.quick else 200):
                say(case.name)
                rows.setdefault(case.name, []).append(measured(url, case))
    report(rows)


if __name__ == "__main__":
    main()
