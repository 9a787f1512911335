"""Connectors and requests: what a save keeps and refuses, and that no secret comes back."""

import asyncio

import pytest
from fix_api import CONTROL, RING, add_tenant
from fix_ledger import CLIENT_ID, CLIENT_SECRET
from fix_receiver import LOOPBACK, answer
from fix_requests import ONCE
from starlette.responses import JSONResponse

from procession.api.app import create_app
from procession.api.services import Services
from procession.queue.connectors import place_of

PLANTED = "hunter2-planted"
BASIC = {
    "name": "Ledger",
    "baseUrl": "https://ledger.example.com/v1",
    "auth": "Basic",
    "settings": {"username": "ann"},
    "secrets": {"password": PLANTED},
}
OAUTH = {
    "name": "Ledger",
    "baseUrl": "https://ledger.example.com",
    "auth": "OAuth2ClientCredentials",
    "settings": {"tokenUrl": "https://id.example.com/token", "clientId": "c1"},
    "secrets": {"clientSecret": PLANTED},
}
PATH = "/api/connectors/ledger"
BOOK = {"name": "Book", "connectorSlug": "ledger", "pathTemplate": "/books"}


@pytest.fixture
def app(pool, make_client):
    """One that may call this machine, once for each probe."""
    return create_app(
        Services(
            pool=pool,
            ring=RING,
            control_tokens=(CONTROL,),
            prober=make_client(tries=ONCE),
            allowed_networks=LOOPBACK,
        )
    )


async def saved(client, body=BASIC, path=PATH, **changes):
    answered = await client.put(path, json={**body, **changes})
    assert answered.status_code in {200, 201}, answered.text
    return answered.json()


async def password(conn):
    """The secret that is stored, opened."""
    cursor = await conn.execute("select secrets ->> 'password' from connector")
    ((sealed,),) = await cursor.fetchall()
    return sealed and RING.open(sealed, place_of("default", "ledger", "password"))


def faults(answered):
    assert answered.status_code == 400, answered.text
    return [one["name"] for one in answered.json()["errors"]]


async def audited(conn):
    cursor = await conn.execute(
        "select action, target_type, target_id, metadata from audit order by at"
    )
    return await cursor.fetchall()


async def test_a_connector_is_made_replaced_and_taken_away(conn, admin):
    made = await admin.put(PATH, json=BASIC)
    again = await admin.put(PATH, json=BASIC)
    listed = (await admin.get("/api/connectors")).json()
    gone = await admin.delete(PATH)

    assert made.status_code == 201
    assert {name: one for name, one in made.json().items() if name != "updatedAt"} == {
        "slug": "ledger",
        "name": "Ledger",
        "baseUrl": "https://ledger.example.com/v1",
        "auth": "Basic",
        "settings": {"username": "ann"},
        "secretsSet": ["password"],
        "enabled": True,
        "probePath": "/",
    }
    assert (again.status_code, again.json()) == (200, made.json())
    assert (listed["items"], listed["totalItems"]) == ([made.json()], 1)
    assert gone.status_code == 204
    assert (await admin.get(PATH)).json()["code"] == "connector-not-found"
    assert (await admin.delete(PATH)).json()["code"] == "connector-not-found"
    about = ("Connector", "ledger", {"slug": "ledger"})
    assert await audited(conn) == [("connector.saved", *about), ("connector.deleted", *about)]


@pytest.mark.parametrize("slug", ["Ledger", "-a", "a_b", "a" * 41])
async def test_a_slug_of_another_form_is_refused(admin, slug):
    for path in ("connectors", "requests"):
        assert (await admin.get(f"/api/{path}/{slug}")).status_code == 400


async def test_everything_that_is_wrong_is_told_at_once(admin):
    wrong = {
        "name": " ",
        "baseUrl": "http://ledger.example.com",
        "auth": "OAuth2ClientCredentials",
        "settings": {"tokenUrl": "ftp://x", "clientAuth": "basic", "idempotencyHeader": "Host"},
        "secrets": {"clientSecret": 7},
        "enabled": "yes",
        "probePath": "no",
    }

    assert faults(await admin.put(PATH, json=wrong)) == [
        "name", "baseUrl", "settings.tokenUrl", "settings.clientId", "settings.clientAuth",
        "settings.idempotencyHeader", "enabled", "probePath", "secrets.clientSecret",
    ]  # fmt: skip
    for body in ({}, [], None, 7):
        answered = await admin.put(PATH, json=body)
        assert answered.status_code == 400


@pytest.mark.parametrize(
    "url",
    [
        "ledger.example.com", "//ledger.example.com", "https://", "https://a b/", "https://ä.example",
        "https://ann:pw@ledger.example.com", "https://ledger.example.com?x=1",
        "https://ledger.example.com#x", "https://ledger.example.com/a/../b", "https://a.example/%2e%2e",
        "https://ledger.example.com\\@evil.example", "https://a.example:0", "https://a.example:99999",
        "http://10.1.2.3", "http://[::2]", "javascript:alert(1)", 7, None, "https://a.example/\n",
    ],
)  # fmt: skip
async def test_a_base_that_could_be_read_in_two_ways_is_refused(admin, url):
    assert "baseUrl" in faults(await admin.put(PATH, json={**BASIC, "baseUrl": url}))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:80/x", "http://[::1]:8080", "http://localhost", "HTTPS://A.Example"]
)
async def test_http_is_for_what_the_operator_allows(admin, url):
    assert (await saved(admin, baseUrl=url))["baseUrl"] == url


async def test_a_secret_that_is_left_out_stays_and_a_blank_one_goes(conn, admin):
    await saved(admin)
    kept = await saved(admin, name="Renamed", secrets={})
    stayed = await password(conn)
    replaced = await saved(admin, secrets={"password": " other "})
    other = await password(conn)
    cleared = await saved(admin, secrets={"password": " "})

    assert (stayed, other, await password(conn)) == (PLANTED, "other", None)
    assert [one["secretsSet"] for one in (kept, replaced, cleared)] == [
        ["password"],
        ["password"],
        [],
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"baseUrl": "https://evil.example.com/v1"},
        {"baseUrl": "https://ledger.example.com:8443/v1"},
        {"baseUrl": "http://127.0.0.1/v1"},
        {"auth": "BearerToken"},
        {"auth": "ApiKeyHeader", "settings": {"headerName": "X-Key"}},
    ],
)
async def test_a_secret_never_goes_to_a_new_place(conn, admin, change):
    await saved(admin)
    moved = {**BASIC, **change, "secrets": {"unknown": "x"}}
    name = {"BearerToken": "token", "ApiKeyHeader": "apiKey"}.get(moved["auth"], "password")

    refused = await admin.put(PATH, json=moved)
    anew = await admin.put(PATH, json={**moved, "secrets": {name: "other"}})

    assert faults(refused) == [f"secrets.{name}"]
    assert (anew.status_code, anew.json()["secretsSet"]) == (200, [name])
    cursor = await conn.execute("select secrets from connector")
    ((secrets,),) = await cursor.fetchall()
    assert list(secrets) == [name]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"tokenUrl": "https://evil.example.com/token"}, 400),
        ({"tokenUrl": "https://id.example.com:444/token"}, 400),
        ({"tokenUrl": "https://id.example.com/other"}, 200),
        ({"tokenUrl": "https://ID.example.com:443/token"}, 200),
        ({"clientId": "c2"}, 200),
    ],
)
async def test_nor_does_the_secret_of_a_client(admin, change, status):
    await saved(admin, OAUTH)
    moved = {**OAUTH, "settings": {**OAUTH["settings"], **change}, "secrets": None}

    assert (await admin.put(PATH, json=moved)).status_code == status


async def test_a_change_to_none_and_back_leaves_nothing_of_it(conn, admin):
    await saved(admin)
    none = await saved(admin, auth="None", secrets={})
    back = await saved(admin, secrets={})

    assert (none["secretsSet"], back["secretsSet"]) == ([], [])
    assert await password(conn) is None


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "ä", "\x7f", "x" * 16_385, 7, ["a"]])
async def test_a_token_that_no_header_may_hold_is_refused(admin, token):
    body = {**BASIC, "auth": "BearerToken", "secrets": {"token": token}}

    assert faults(await admin.put(PATH, json=body)) == ["secrets.token"]


async def test_no_secret_is_in_a_row_an_answer_or_the_audit_log(conn, admin):
    made = await admin.put(PATH, json=BASIC)
    read = await admin.get(PATH)
    listed = await admin.get("/api/connectors")
    probed = await admin.post(f"{PATH}/test")
    log = await admin.get("/api/audit")

    assert PLANTED not in "".join(one.text for one in (made, read, listed, probed, log))
    for table in ("connector", "audit"):
        cursor = await conn.execute(f"select row_to_json({table})::text from {table}")
        assert PLANTED not in str(await cursor.fetchall())


async def test_another_tenants_connector_is_not_there(conn, admin, call):
    await add_tenant(conn, "acme")
    theirs = await call("Admin", "acme")
    await saved(admin)
    await saved(admin, BOOK, "/api/requests/book")

    for path in (PATH, "/api/requests/book"):
        assert (await theirs.get(path)).status_code == 404
        assert (await theirs.delete(path)).status_code == 404
    assert (await theirs.post(f"{PATH}/test")).status_code == 404
    assert (await theirs.get("/api/connectors")).json()["items"] == []
    assert faults(await theirs.put("/api/requests/book", json=BOOK)) == ["connectorSlug"]
    assert (await theirs.put(PATH, json=BASIC)).status_code == 201


@pytest.mark.parametrize("held", [None, "view_connectors", "manage_connectors"])
async def test_each_route_needs_its_capability(admin, call, held):
    await saved(admin)
    await saved(admin, BOOK, "/api/requests/book")
    await admin.put("/api/roles/Clerk", json={"capabilities": [held] if held else []})
    clerk = await call("Clerk")

    viewed = [
        (await clerk.get(path)).status_code
        for path in ("/api/connectors", PATH, "/api/requests", "/api/requests/book")
    ]
    managed = [
        (await clerk.request(method, path, json=body)).status_code
        for method, path, body in (
            ("PUT", PATH, {}),
            ("POST", f"{PATH}/test", None),
            ("PUT", "/api/requests/book", {}),
            ("DELETE", "/api/requests/other", None),
            ("DELETE", "/api/connectors/other", None),
        )
    ]

    assert viewed == [200 if held == "view_connectors" else 403] * 4
    assert managed == ([400, 200, 400, 404, 404] if held == "manage_connectors" else [403] * 5)


async def test_two_that_make_it_at_once_make_one(conn, admin):
    answers = await asyncio.gather(
        *(admin.put(PATH, json={**BASIC, "name": f"Saver {one}"}) for one in range(4))
    )

    assert sorted(one.status_code for one in answers) == [200, 200, 200, 201]
    assert len(await audited(conn)) == 4


async def test_a_request_is_made_replaced_and_taken_away(conn, admin):
    await saved(admin)
    made = await admin.put("/api/requests/book", json=BOOK)
    again = await admin.put("/api/requests/book", json=BOOK)
    in_use = await admin.delete(PATH)
    gone = await admin.delete("/api/requests/book")

    assert made.status_code == 201
    assert {name: one for name, one in made.json().items() if name != "updatedAt"} == {
        "slug": "book",
        "name": "Book",
        "connectorSlug": "ledger",
        "method": "POST",
        "pathTemplate": "/books",
        "headerTemplates": {},
        "bodyTemplate": None,
        "bodyContentType": "application/json",
        "success": "TwoHundredRange",
        "successJsonPath": None,
    }
    assert (again.status_code, again.json()) == (200, made.json())
    assert (in_use.status_code, in_use.json()["code"]) == (409, "connector-in-use")
    assert gone.status_code == 204
    assert (await admin.get("/api/requests/book")).json()["code"] == "request-not-found"
    assert (await admin.delete("/api/requests/book")).json()["code"] == "request-not-found"
    assert (await admin.delete(PATH)).status_code == 204
    assert [one[0] for one in await audited(conn)] == [
        "connector.saved", "request.saved", "request.deleted", "connector.deleted",
    ]  # fmt: skip


async def test_everything_that_is_wrong_with_a_request_is_told_at_once(admin):
    wrong = {
        "name": "",
        "connectorSlug": "A",
        "method": "post",
        "pathTemplate": "books",
        "headerTemplates": {
            "Host": "x", "Authorization": "x", "A b": "x", "X-A": "1\r\n", "X-B": "1", "x-b": "2",
        },
        "bodyTemplate": 7,
        "bodyContentType": "json",
        "success": "TwoHundredAndJsonPathAbsent",
        "successJsonPath": None,
    }  # fmt: skip

    assert faults(await admin.put("/api/requests/book", json=wrong)) == [
        "name", "connectorSlug", "method", "pathTemplate",
        "headerTemplates.Host", "headerTemplates.Authorization", "headerTemplates.A b",
        "headerTemplates.X-A", "headerTemplates.x-b", "bodyTemplate", "bodyContentType",
        "successJsonPath",
    ]  # fmt: skip


async def test_a_request_names_a_connector_that_there_is(admin):
    assert faults(await admin.put("/api/requests/book", json=BOOK)) == ["connectorSlug"]


async def test_a_probe_is_one_get_with_what_lets_in(admin, receiver):
    await saved(admin, baseUrl=receiver.url("/v1"), probePath="/ping?x=1")
    receiver.will(answer(204), answer(503), answer(302))

    answers = [(await admin.post(f"{PATH}/test")).json() for _ in range(3)]

    assert [(one["ok"], one["status"], one["error"]) for one in answers] == [
        (True, 204, None),
        (False, 503, None),
        (False, 302, None),
    ]
    assert {(one.method, one.path) for one in receiver.received} == {("GET", "/v1/ping?x=1")}
    assert receiver.received[0].headers["authorization"].startswith("Basic ")
    assert all(isinstance(one["durationMs"], int) for one in answers)


async def test_a_probe_asks_for_a_token_of_its_own(admin, ledger):
    settings = {"tokenUrl": f"{ledger.url}/token", "clientId": CLIENT_ID}
    secrets = {"clientSecret": CLIENT_SECRET}
    await saved(admin, OAUTH, baseUrl=ledger.url, settings=settings, secrets=secrets)

    good = (await admin.post(f"{PATH}/test")).json()
    ledger.refusal = JSONResponse({"error": "invalid_client", "hint": CLIENT_SECRET}, 401)
    bad = (await admin.post(f"{PATH}/test")).json()

    assert (good["ok"], good["status"]) == (True, 200)
    assert (bad["ok"], bad["status"]) == (False, None)
    assert bad["error"] == "No token was granted: HTTP 401 invalid_client."
    assert len(ledger.booked) == 1


async def test_a_probe_says_why_there_is_no_status(conn, admin, receiver):
    await saved(admin, auth="BearerToken", baseUrl=receiver.url(), secrets={})
    missing = (await admin.post(f"{PATH}/test")).json()
    await receiver.stop()
    await saved(admin, auth="BearerToken", baseUrl=receiver.url(), secrets={"token": PLANTED})
    closed = (await admin.post(f"{PATH}/test")).json()
    await saved(admin, baseUrl="https://10.1.2.3", secrets={"password": "x"})
    refused = (await admin.post(f"{PATH}/test")).json()
    await conn.execute(
        """update connector set secrets = '{"password": "v1.gone.%s"}'""" % ("A" * 60)
    )
    unreadable = (await admin.post(f"{PATH}/test")).json()

    assert missing["error"] == "Enter the token of the connector: it has none."
    assert closed["error"] == "ConnectionFailed"
    assert refused["error"] == "AddressRefused: 10.1.2.3"
    assert unreadable["error"] == (
        "A secret of it cannot be read by any key: add the key gone to SECRETS__KEYS, or enter it"
        " again."
    )


async def test_a_connector_that_is_switched_off_is_not_probed(admin, receiver):
    await saved(admin, baseUrl=receiver.url(), enabled=False)

    refused = await admin.post(f"{PATH}/test")
    nothing = await admin.post("/api/connectors/other/test")

    assert (refused.status_code, refused.json()["code"]) == (409, "connector-disabled")
    assert (nothing.status_code, nothing.json()["code"]) == (404, "connector-not-found")
    assert receiver.received == []


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"headerName": "IDEMPOTENCY-key"}, True),
        ({"headerName": "X-Key", "idempotencyHeader": "x-key"}, True),
        ({"headerName": "Idempotency-Key", "idempotencyHeader": "off"}, False),
        ({"headerName": "X-Key", "idempotencyHeader": "X-Once"}, False),
    ],
)
async def test_a_key_has_a_header_of_its_own(admin, settings, refused):
    body = {**BASIC, "auth": "ApiKeyHeader", "settings": settings, "secrets": {"apiKey": "k"}}

    response = await admin.put(PATH, json=body)

    assert response.status_code == (400 if refused else 201)
    assert not refused or faults(response) == ["settings.headerName"]


async def test_a_user_name_has_no_colon(admin):
    response = await admin.put(PATH, json={**BASIC, "settings": {"username": "a:b"}})

    assert faults(response) == ["settings.username"]
