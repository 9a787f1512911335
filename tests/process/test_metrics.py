"""Metrics and traces of the real commands, over real sockets."""

import asyncio
import json
import re
from pathlib import Path

import httpx2
import pytest
from fix_metrics import samples
from fix_process import KEYS
from fix_receiver import answer
from fix_worker import OURS, PLAIN, finished, free_port, publish
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from procession.app.local import serve

pytestmark = pytest.mark.slow

OPS = Path(__file__).parents[2] / "ops"
KEY = {"METRICS__SCRAPE_KEY": "scrape-key-of-the-tests"}
HEADERS = {"X-Scrape-Key": KEY["METRICS__SCRAPE_KEY"]}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def scraped(port):
    async with httpx2.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{port}/metrics"
        assert (await client.get(url)).status_code == 401
        answered = await client.get(url, headers=HEADERS)
        assert answered.status_code == 200
        return answered.text


async def until(port, name, seconds=30):
    """The scrape, once it has this metric."""
    async with asyncio.timeout(seconds):
        while True:
            text = await scraped(port)
            if f"procession_workflow_{name}" in text:
                return text
            await asyncio.sleep(0.1)


def read():
    """The metrics that the rules and the board read."""
    text = "".join(one.read_text() for one in OPS.rglob("*.*"))
    return {re.sub(r"_bucket$", "", one) for one in re.findall(r"procession_workflow_\w+", text)}


@pytest.mark.parametrize("line", [OURS, PLAIN], ids=" ".join)
async def test_all_that_rules_and_board_read_is_in_a_scrape_of_api_and_worker(  # noqa: PLR0913, PLR0917  its fixtures
    announcing, receiver, work, command, database, line
):
    ports = await free_port(), await free_port()
    where = {"HOST": "127.0.0.1", "PORT": ports[0], "SECRETS__KEYS": KEYS}
    api = await command("procession", "api", **where, DATABASE_URL=database.url, **KEY)
    await api.until("Listening on")
    worker = await work(line, PORT=ports[1], WORKFLOWS__BACKLOG_INTERVAL_SECONDS=1, **KEY)
    receiver.will(answer(204))
    await finished(announcing, await publish(announcing, "a"))

    of_worker = await until(ports[1], "backlog_measured_timestamp_seconds")
    of_api = await scraped(ports[0])

    there = set(re.findall(r"^# TYPE (\w+)", of_worker + of_api, re.MULTILINE))
    assert read() - there == set()
    assert set(re.findall(r"^# TYPE (\w+)", of_api, re.MULTILINE)) == {
        "procession_workflow_runs_queued_total"
    }
    assert samples(of_worker)["attempts_total", "Webhook", "succeeded"] == 1
    assert [await one.stop() for one in (worker, api)] == [0, 0]
    assert all("Stopped, as SIGTERM asked" in one.said[-1] for one in (worker, api))


async def test_up_shows_what_its_api_and_its_worker_count(command, home, port):
    up = await command("procession", "up", "--data", home, "--port", port, **KEY)
    await up.until("signature good")

    shown = samples(await until(port, "backlog_measured_timestamp_seconds"))

    assert sum(value for key, value in shown.items() if key[0] == "runs_queued_total") == 1
    assert shown["attempts_total", "Webhook", "succeeded"] == 1
    assert shown["runner_last_pass_timestamp_seconds",] > 0
    assert await up.stop() == 0


async def test_a_scrape_goes_on_while_the_database_is_away(command, home):
    port = await free_port()
    with serve(home / "postgres") as local:
        url = local.url
        await (await command("procession", "migrate", DATABASE_URL=url)).ended()
        where = {"HOST": "127.0.0.1", "PORT": port, "DATABASE_URL": url, "SECRETS__KEYS": KEYS}
        worker = await command("procession", "worker", **where, **KEY)
        await worker.until("Listening on")
        before = samples(await until(port, "runner_last_pass_timestamp_seconds"))
    await worker.until("Nothing could be claimed")

    after = samples(await scraped(port))

    assert (
        after["runner_last_pass_timestamp_seconds",]
        >= before["runner_last_pass_timestamp_seconds",]
    )
    assert after["attempts_claimed_total",] == 0


class Collector:
    """What came to a receiver that plays the collector's part."""

    def __init__(self, receiver):
        self._receiver = receiver

    def spans(self):
        sent = [one for one in self._receiver.received if one.path == "/v1/traces"]
        for one in sent:
            for of_service in ExportTraceServiceRequest.FromString(one.body).resource_spans:
                (service,) = [
                    each.value.string_value
                    for each in of_service.resource.attributes
                    if each.key == "service.name"
                ]
                for scope in of_service.scope_spans:
                    yield from ((service, each) for each in scope.spans)


async def test_spans_of_api_and_worker_arrive_at_a_collector(
    announcing, receiver, work, command, database
):
    port = await free_port()
    where = {"HOST": "127.0.0.1", "PORT": port, "SECRETS__KEYS": KEYS}
    to = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url().rstrip("/")}
    api = await command("procession", "api", **where, DATABASE_URL=database.url, **to)
    await api.until("Listening on")
    worker = await work(**to)
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    headers["authorization"] = announcing.headers["authorization"]
    body = {"status": "Published", "data": {}}
    async with httpx2.AsyncClient(trust_env=False, headers=headers) as client:
        saved = await client.put(f"http://127.0.0.1:{port}/api/entries/Article/a", json=body)
    await finished(announcing, saved.json()["runIds"][0])

    assert [await one.stop() for one in (worker, api)] == [0, 0]

    found = {
        (service, one.name)
        for service, one in Collector(receiver).spans()
        if one.trace_id.hex() == TRACE
    }
    assert found == {
        ("procession-api", "PUT /api/entries/{contentType}/{id}"),
        ("procession-worker", "claim"),
        ("procession-worker", "attempt"),
        ("procession-worker", "POST"),
    }


async def test_a_line_of_the_worker_names_run_tenant_attempt_and_correlation(
    announcing, receiver, work
):
    worker = await work(LOG__FORMAT="json")
    receiver.will(answer(410))
    body = {"status": "Published", "data": {}}
    headers = {"X-Correlation-ID": "req-9", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    saved = await announcing.put("/api/entries/Article/a", json=body, headers=headers)

    line = json.loads(await worker.until("ended Failed"))

    assert line.pop("at")
    assert line == {
        "level": "warning",
        "logger": "procession.app.notice",
        "message": "Action 0 Webhook ended Failed",
        "tenant": "default",
        "run": saved.json()["runIds"][0],
        "action": 0,
        "attempt": 1,
        "correlation": "req-9",
        "trace_id": TRACE,
    }
    assert await worker.stop() == 0
