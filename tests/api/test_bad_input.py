"""Odd input, wherever some is taken: a refusal that names the fault, and never a failure."""

import json
import uuid

import pytest
from fix_api import declare

from procession.api.paths import A_UUID

RUNS = "/api/workflow-runs"
DELIVERIES = "/api/webhook-deliveries"
NO_RUN = f"{RUNS}/{uuid.UUID(int=7)}"
LISTS = [
    "/api/keys",
    "/api/roles",
    "/api/content-types",
    "/api/entries/Article",
    "/api/connectors",
    "/api/requests",
    "/api/workflows",
    "/api/workflows/health",
    RUNS,
    "/api/webhook-deliveries",
    "/api/audit",
]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
async def _article(admin):
    await declare(admin)


def named(answer):
    """A refusal of what was sent: the places of its faults."""
    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return [one["name"] for one in answer.json()["errors"]]


@pytest.mark.parametrize("path", LISTS)
async def test_every_list_refuses_a_page_that_there_cannot_be(admin, path):
    assert (await admin.get(path)).status_code == 200
    for query in ("page=0", "page=-1", "page=1e3", "page=%00", "page=٣", "page=1&page=2"):
        assert named(await admin.get(f"{path}?{query}")) == ["page"]
    for query in ("pageSize=0", "pageSize=101", "pageSize=x", "pageSize="):
        assert named(await admin.get(f"{path}?{query}")) == ["pageSize"]
    both = await admin.get(f"{path}?page=0&pageSize=101")
    assert sorted(named(both)) == ["page", "pageSize"]
    assert named(await admin.get(f"{path}?x=a%00b")) == ["x"]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("status=99", "status"),
        ("status=", "status"),
        ("status=Pending,Failed", "status"),
        ("status=Pending&status=Failed", "status"),
        ("entryId=a&entryId=a", "entryId"),
        ("workflowId=x", "workflowId"),
        ("entryId=a/b", "entryId"),
        ("contentType=9", "contentType"),
        ("changedSince=", "changedSince"),
        ("changedSince=yesterday", "changedSince"),
        ("changedSince=2026-11-30", "changedSince"),
        ("changedSince=2026-11-30T08:00:00Z~x", "changedSince"),
        ("changedSince=9999-12-31T23:59:59-23:59", "changedSince"),
        ("changedSince=" + "9" * 5_000, "changedSince"),
        ("changedSince=%F0%28%8C%BC", "changedSince"),
    ],
    ids=lambda value: value[:40],
)
async def test_a_filter_of_runs_that_means_nothing_is_refused_by_its_name(admin, query, name):
    assert named(await admin.get(f"{RUNS}?{query}")) == [name]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/webhook-deliveries?status=99", "status"),
        ("/api/webhook-deliveries?runId=x", "runId"),
        ("/api/entries/Article?status=99", "status"),
        ("/api/audit?from=yesterday", "from"),
        ("/api/audit?to=1", "to"),
        ("/api/workflows/health?windowDays=0", "windowDays"),
        ("/api/workflows/health?windowDays=x", "windowDays"),
    ],
)
async def test_a_filter_of_other_lists_too(admin, path, name):
    assert named(await admin.get(path)) == [name]


@pytest.mark.parametrize(
    "path",
    [
        "/api/entries/Article/a%2Fb",
        "/api/entries/Article/a/b",
        f"{RUNS}/a%2Fb",
        "/api/connectors/a%2Fb",
        "/api/roles/a/b",
        "/api/entries/%2e%2e/%2e%2e%2fkeys/x",
        "/api//keys",
        "/api/keys/",
    ],
)
async def test_an_id_with_a_slash_is_another_path(admin, path):
    answer = await admin.get(path)

    assert answer.status_code in {404, 405}
    assert answer.json()["code"] in {"route-not-found", "method-not-allowed"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{RUNS}/not-a-uuid", "id"),
        (f"{RUNS}/{uuid.UUID(int=7)}x", "id"),
        ("/api/entries/Article/a%20b", "id"),
        ("/api/entries/Article/%00", "id"),
        ("/api/entries/Article/%FF", "id"),
        (f"/api/entries/Article/{'x' * 201}", "id"),
        ("/api/entries/9/a", "contentType"),
        ("/api/content-types/a-b", "name"),
        ("/api/connectors/A", "slug"),
        ("/api/requests/-", "slug"),
        ("/api/workflows/x", "id"),
        (f"/api/workflows/{uuid.UUID(int=7)}/versions/0", "version"),
        (f"/api/workflows/{uuid.UUID(int=7)}/versions/{'9' * 30}", "version"),
    ],
    ids=lambda value: value[:60],
)
async def test_a_malformed_id_is_refused_by_its_name(admin, path, name):
    assert named(await admin.get(path)) == [name]


@pytest.mark.parametrize("ordinal", ["-1", "x", "1.0", "9" * 30])
async def test_a_malformed_ordinal_too(admin, ordinal):
    assert named(await admin.post(f"{NO_RUN}/actions/{ordinal}/retry")) == ["ordinal"]


BODIES = [
    ("POST", "/api/keys"),
    ("PUT", "/api/roles/Own"),
    ("PUT", "/api/content-types/Other"),
    ("PUT", "/api/entries/Article/a-1"),
    ("PUT", "/api/connectors/ledger"),
    ("PUT", "/api/requests/invoice"),
    ("POST", "/api/workflows"),
    ("POST", "/api/workflows/validate"),
    ("POST", "/api/workflows/dry-run"),
    ("PUT", f"/api/workflows/{uuid.UUID(int=7)}/enabled"),
    ("PUT", "/api/tenants/default"),
]


@pytest.mark.parametrize(("method", "path"), BODIES)
async def test_every_body_is_read_strictly(admin, method, path):
    async def send(content):
        answer = await admin.request(method, path, content=content, headers=JSON)
        return answer.status_code, answer.json()["code"], answer.json()["detail"]

    too_large = await send(b" " * 10_000_000)
    assert too_large == (413, "body-too-large", "At most 1048576 bytes are taken.")
    for content, detail in (
        (b'{"name": 1, "name": 2}', 'The name "name" comes twice in body.'),
        (b'{"a": [{"b": 1, "b": 1}]}', 'The name "b" comes twice in a[0].'),
        (b"[" * 10_000 + b"]" * 10_000, "It is nested too deep."),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "It is nested too deep."),
        (b"[" * 200 + b"]" * 200, "It is nested deeper than 64."),
        (b"", "Expecting value, at line 1 column 1."),
        (b"\xff", "Byte 0 is not UTF-8."),
    ):
        assert await send(content) == (400, "malformed-json", detail)
    for content in (b'{"a": "\\u0000"}', b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\\ud800"}'):
        answer = await admin.request(method, path, content=content, headers=JSON)
        assert named(answer) == ["a"]


@pytest.mark.parametrize(("method", "path"), BODIES)
@pytest.mark.parametrize("body", [[], 1, "x", None, True, {}, {"": {"": []}}], ids=json.dumps)
async def test_a_body_of_another_shape_is_no_failure(admin, method, path, body):
    answer = await admin.request(method, path, json=body)

    assert answer.status_code < 500
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_ten_megabyte_body_that_is_not_announced_is_cut_off(admin):
    taken = []

    async def pieces():
        for _ in range(160):
            taken.append(1)
            yield b" " * 65_536

    answer = await admin.post("/api/keys", content=pieces(), headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
    assert len(taken) < 160


@pytest.mark.parametrize(
    "value", ['"x', "3", '"0"', '"-1"', "W/*", '"1" "2"', "x" * 5_000, '"' + "9" * 40 + '"']
)
async def test_a_condition_that_cannot_be_read_is_refused_by_its_header(admin, value):
    answer = await admin.put(
        "/api/entries/Article/a-1", json={"data": {}}, headers={"If-Match": value}
    )

    assert answer.status_code in {400, 412}
    if answer.status_code == 400:
        assert named(answer) == ["If-Match"]


async def test_the_answer_to_a_body_is_no_longer_than_somebody_reads(admin):
    types = [f"A{one:05}" for one in range(4_000)]
    flow = {
        "name": "W",
        "triggerContentTypes": types,
        "triggerEvents": [f"transition:B{one}" for one in range(4_000)],
        "actions": [{"type": "Email", "parameters": {f"P{one}": one for one in range(2_000)}}],
    }

    checked = await admin.post("/api/workflows/validate", json=flow)
    refused = await admin.put("/api/roles/Long", json={"capabilities": [1] * 100_000})

    assert len(checked.json()["errors"]) == 100
    assert max(len(checked.content), len(refused.content)) < 20_000
    assert refused.json()["errors"][0]["reason"] == "must have at most 100 items"


async def test_a_number_does_not_make_an_entry_larger_than_a_body(admin):
    await admin.put("/api/content-types/J", json={"fields": {"X": {"type": "json"}}})
    sent = '{"data": {"X": [' + "1e308," * 5_000 + "1]}}"
    headers = {"Content-Type": "application/json"}

    refused = await admin.put("/api/entries/J/a", content=sent, headers=headers)

    assert (refused.status_code, refused.json()["code"]) == (413, "body-too-large")
    assert "numbers written out" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("DELETE", "/api/entries/Article/nope", "entry-not-found"),
        ("POST", "/api/entries/Article/nope/transitions/Submit", "entry-not-found"),
        ("PUT", "/api/entries/Nope/a-1", "content-type-not-found"),
        ("PUT", "/api/workflows/00000000-0000-7000-8000-000000000000", "workflow-not-found"),
        ("DELETE", "/api/entries/Article/a-1", "validation-failed"),
        ("POST", "/api/entries/Article/a-1/transitions/Archive", "transition-not-found"),
        ("PUT", "/api/entries/Article/a-1", "validation-failed"),
    ],
)
async def test_what_is_not_there_comes_before_a_header_that_cannot_be_read(
    admin, method, path, code
):
    await declare(admin)
    await admin.put("/api/entries/Article/a-1", json={"data": {}})
    body = None if method != "PUT" else {"data": {}}

    one = await admin.request(method, path, json=body, headers={"If-Match": "x"})
    two = await admin.request(
        method, path, json=body, headers=[("If-Match", '"1"'), ("If-Match", '"9"')]
    )

    assert [one.json()["code"], two.json()["code"]] == [code, code]


@pytest.mark.parametrize("way", ["workflow-runs", "workflows", "workflow-runs/bulk"])
@pytest.mark.parametrize("form", ["{%s}", "urn:uuid:%s", "undashed", "%s "])
async def test_an_id_is_written_in_one_way(admin, way, form):
    known = "0b9f6a52-6f0e-4f0c-9a55-1c1f0a6f2d11"
    odd = known.replace("-", "") if form == "undashed" else form % known

    refused = await admin.get(f"/api/{way}/{odd}")

    assert (refused.status_code, named(refused)) == (400, ["id"])
    assert refused.json()["errors"][0]["reason"] == A_UUID
    assert (await admin.get(f"/api/{way}/{known.upper()}")).status_code == 404


@pytest.mark.parametrize("form", ["{%s}", "urn:uuid:%s", "undashed", "%s "])
async def test_a_filter_takes_an_id_in_no_other_way(admin, form):
    known = "0b9f6a52-6f0e-4f0c-9a55-1c1f0a6f2d11"
    odd = known.replace("-", "") if form == "undashed" else form % known
    lists = [(RUNS, "workflowId"), (DELIVERIES, "workflowId"), (DELIVERIES, "runId")]

    refused = [(await admin.get(path, params={name: odd}), name) for path, name in lists]
    bulk = {"filter": {"workflowId": odd}, "dryRun": True}
    refused.append((await admin.post(f"{RUNS}/bulk/cancel", json=bulk), "filter.workflowId"))
    taken = [await admin.get(path, params={name: known.upper()}) for path, name in lists]

    for answer, name in refused:
        assert named(answer) == [name]
        assert answer.json()["errors"][0]["reason"] == A_UUID
    assert [one.status_code for one in taken] == [200] * 3
