"""Who gets in, and in whose name."""

import pytest
from fix_api import CONTROL, add_key, add_tenant

from procession.api.app import create_app
from procession.api.services import Services


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def test_every_bad_credential_is_one_and_the_same_refusal(client, conn):
    good, expired, revoked = [await add_key(conn) for _ in range(3)]
    await conn.execute(
        "update api_key set expires_at = now() - interval '1 second' where id = %s",
        (expired.split("_")[1],),
    )
    await conn.execute(
        "update api_key set revoked_at = now() where id = %s", (revoked.split("_")[1],)
    )
    prc, key_id, secret = good.split("_")
    bad = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {good}"},
        {"Authorization": good},
        *map(
            bearer,
            [
                expired,
                revoked,
                good[:-1],
                good + "x",
                f"{prc}_{key_id}_{'x' * 43}",
                f"{prc}_{'x' * 12}_{secret}",
                f"PRC_{key_id}_{secret}",
                CONTROL[:-1],
                f"{CONTROL},{CONTROL}",
                "ü" * 40,
            ],
        ),
    ]

    assert (await client.get("/api/me", headers=bearer(good))).status_code == 200
    answers = []
    for headers in bad:
        encoded = {name: value.encode() for name, value in headers.items()}
        answers.append(await client.get("/api/me", headers=encoded))

    assert {one.status_code for one in answers} == {401}
    same = answers[0].json() | {"traceId": ""}
    assert [one.json() for one in answers if one.json() | {"traceId": ""} != same] == []
    assert {one.headers["www-authenticate"] for one in answers} == {"Bearer"}


async def test_the_scheme_is_read_in_any_case(client, conn):
    good = await add_key(conn)

    answer = await client.get("/api/me", headers={"Authorization": f"bEaReR {good}"})

    assert answer.status_code == 200


async def test_a_key_acts_in_its_own_tenant_only(client, conn):
    headers = bearer(await add_key(conn, "acme", "Viewer"))
    await add_tenant(conn, "other")

    plain = await client.get("/api/me", headers=headers)
    named = await client.get("/api/me", headers=headers | {"X-Tenant": "acme"})
    other = await client.get("/api/me", headers=headers | {"X-Tenant": "other"})
    nowhere = await client.get("/api/me", headers=headers | {"X-Tenant": "nowhere"})

    assert plain.json() == named.json()
    assert plain.json() | {"actor": None} == {
        "actor": None,
        "tenant": "acme",
        "roles": ["Viewer"],
        "capabilities": ["view_workflow_runs", "read_entries"],
    }
    assert plain.json()["actor"]["kind"] == "ApiKey"
    for answer in (other, nowhere):
        assert (answer.status_code, answer.json()["code"]) == (403, "tenant-mismatch")


async def test_two_credentials_are_none(client, conn):
    good, other = [await add_key(conn, tenant) for tenant in ("default", "acme")]

    for pair in ([good, other], [good, "nonsense"], [good, good], [CONTROL, good]):
        headers = [("Authorization", f"Bearer {one}") for one in pair]
        answer = await client.get("/api/me", headers=[*headers, ("X-Tenant", "default")])

        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_of_two_tenants_that_are_named_none_counts(admin, control, conn):
    await add_tenant(conn, "acme")
    both = [("X-Tenant", "default"), ("X-Tenant", "acme")]

    for client in (admin, control):
        for path in ("/api/me", "/api/tenants/default"):
            answer = await client.get(path, headers=both)

            assert answer.status_code == 400
            assert answer.json()["errors"] == [
                {"name": "X-Tenant", "reason": "comes more than once"}
            ]


async def test_the_control_token_names_its_tenant(control, conn):
    await add_tenant(conn, "acme")

    named = await control.get("/api/me", headers={"X-Tenant": "acme"})
    missing = await control.get("/api/me")
    unknown = await control.get("/api/me", headers={"X-Tenant": "nowhere"})
    malformed = await control.get("/api/me", headers={"X-Tenant": "No Slug"})

    assert named.json()["actor"] == {"kind": "Control", "id": "control", "name": "Control"}
    assert "view_webhook_response_bodies" in named.json()["capabilities"]
    assert (missing.status_code, missing.json()["code"]) == (400, "tenant-required")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "tenant-not-found")
    assert (malformed.status_code, malformed.json()["code"]) == (400, "validation-failed")


async def test_a_control_caller_names_the_person_it_acts_for(control):
    headers = {"X-Tenant": "default", "X-Actor-Id": "u-7", "X-Actor-Email": "zoe@example.org"}

    answer = await control.get("/api/me", headers=headers | {"X-Actor-Name": "Zoë".encode()})

    assert answer.json()["actor"] == {"kind": "Control", "id": "u-7", "name": "Zoë"}


@pytest.mark.parametrize("header", ["X-Actor-Id", "X-Actor-Name", "X-Actor-Email"])
async def test_a_person_is_named_in_200_printable_characters(control, header):
    fits = await control.get("/api/me", headers={"X-Tenant": "default", header: "x" * 200})
    long = await control.get("/api/me", headers={"X-Tenant": "default", header: "x" * 201})
    control_sign = await control.get("/api/me", headers={"X-Tenant": "default", header: b"a\x7fb"})

    assert fits.status_code == 200
    for answer in (long, control_sign):
        assert answer.status_code == 400
        assert [one["name"] for one in answer.json()["errors"]] == [header]


@pytest.mark.parametrize("header", ["X-Actor-Id", "X-Actor-Name", "X-Actor-Email"])
async def test_a_control_caller_acts_for_one_person(control, header):
    answer = await control.get(
        "/api/me", headers=[("X-Tenant", "default"), (header, "u-7"), (header, "u-8")]
    )

    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"name": header, "reason": "comes more than once"}]


async def test_a_key_cannot_say_whom_it_acts_for(admin):
    answer = await admin.get("/api/me", headers={"X-Actor-Id": "u-7", "X-Actor-Name": "x" * 300})

    assert answer.json()["actor"]["kind"] == "ApiKey"


async def test_both_values_of_the_control_token_work(pool, client):
    tokens = ("a" * 32, "b" * 32)
    app = create_app(Services(pool=pool, control_tokens=tokens))
    client._transport.app = app  # noqa: SLF001 - the same client on another application

    statuses = [
        (await client.get("/api/me", headers=bearer(one) | {"X-Tenant": "default"})).status_code
        for one in (*tokens, CONTROL)
    ]

    assert statuses == [200, 200, 401]


async def test_a_key_is_used_up_to_the_minute_and_written_once_in_it(client, conn):
    headers = bearer(await add_key(conn))
    read = "select last_used_at = date_trunc('minute', last_used_at), xmin from api_key"

    await client.get("/api/me", headers=headers)
    first = await (await conn.execute(read)).fetchone()
    await client.get("/api/me", headers=headers)
    second = await (await conn.execute(read)).fetchone()

    assert first[0] is True
    # the minute may have turned between the two requests
    minutes = await (
        await conn.execute("select now() - last_used_at < '10 s' from api_key")
    ).fetchone()
    assert second == first or minutes == (True,)


async def test_a_role_is_read_at_each_request(client, conn):
    headers = bearer(await add_key(conn, role="Courier"))

    before = (await client.get("/api/me", headers=headers)).json()["capabilities"]
    await conn.execute(
        "insert into role (tenant, name, capabilities)"
        " values ('default', 'Courier', '{read_entries, gone_since}')"
    )
    after = (await client.get("/api/me", headers=headers)).json()["capabilities"]

    assert (before, after) == ([], ["read_entries"])
