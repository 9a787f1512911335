"""People whom the identity provider knows: in which tenant they are, and what they may do there."""

import pytest
from fix_api import RING, add_key, add_tenant, client_of
from fix_issuer import rsa_signer
from fix_receiver import hang, redirect

from procession.api.app import create_app
from procession.api.services import ClaimNames, Services
from procession.outbound.retry import Tries


@pytest.fixture
def make_app(pool):
    def make(issuer, **parts):
        return create_app(Services(pool=pool, ring=RING, issuer=issuer, **parts))

    return make


@pytest.fixture
async def ask(make_app, issuer, provider):
    """Send as whoever a token of these claims is of."""
    app = make_app(issuer)

    async def send(path="/api/me", *, token=None, app=app, method="GET", chosen=None, **claims):
        headers = {"Authorization": f"Bearer {token or provider.token(**claims)}"}
        headers |= {} if chosen is None else {"X-Tenant": chosen}
        async with client_of(app) as client:
            return await client.request(method, path, headers=headers)

    return send


@pytest.fixture
def impatient(make_app, make_issuer, monkeypatch):
    """An application that waits for its issuer for a moment only."""
    monkeypatch.setattr("procession.outbound.public_keys.DEADLINE", 0.3)
    return make_app(make_issuer(tries=Tries(retries=0)))


def refusal(answer):
    return answer.status_code, answer.json()["code"]


async def test_a_person_acts_in_the_tenant_and_by_the_roles_of_its_token(ask):
    answer = await ask()

    assert answer.status_code == 200
    assert answer.json() == {
        "actor": {"kind": "User", "id": "u-7", "name": "Zoë"},
        "tenant": "default",
        "roles": ["Editor"],
        "capabilities": [
            "manage_workflows",
            "run_workflows",
            "view_workflow_runs",
            "manage_entries",
            "read_entries",
        ],
    }


async def test_roles_add_up_and_those_that_the_tenant_has_not_are_ignored(ask, conn):
    await add_tenant(conn, "acme")
    await conn.execute(
        "insert into role (tenant, name, capabilities) values"
        " ('default', 'Auditor', '{view_audit_log}'), ('acme', 'Boss', '{*}')"
    )

    both = await ask(roles=["Viewer", "Boss", "Auditor", "Viewer", "no role", 7, None])
    text = await ask(roles="Auditor")
    nothing = [await ask(roles=one) for one in (None, [], "Boss", {"Admin": True}, [["Admin"]], 7)]

    assert both.json()["roles"] == ["Viewer", "Auditor"]
    assert both.json()["capabilities"] == ["view_workflow_runs", "read_entries", "view_audit_log"]
    assert text.json()["capabilities"] == ["view_audit_log"]
    for answer in nothing:
        assert answer.status_code == 200
        assert answer.json()["roles"] == answer.json()["capabilities"] == []
    assert refusal(await ask("/api/workflows", roles="Boss")) == (403, "forbidden")
    assert (await ask("/api/workflows", roles="Boss", tenant="acme")).status_code == 200


async def test_of_several_tenants_the_first_counts_unless_one_is_chosen(ask, conn):
    for slug in ("acme", "other"):
        await add_tenant(conn, slug)
    listed = ["No Slug", 7, "acme", "default", "gone"]

    assert (await ask(tenant=listed)).json()["tenant"] == "acme"
    assert (await ask(tenant=listed, chosen="default")).json()["tenant"] == "default"
    for elsewhere in ("other", "nowhere", "No Slug", "7", "", "Acme"):
        assert refusal(await ask(tenant=listed, chosen=elsewhere)) == (403, "tenant-mismatch")
    assert refusal(await ask(tenant=listed, chosen="gone")) == (404, "tenant-not-found")


@pytest.mark.parametrize("claim", [None, "", [], ["No Slug"], {"acme": 1}, 7, True])
async def test_a_token_that_names_no_tenant_is_of_none(ask, claim):
    assert refusal(await ask(tenant=claim)) == (403, "tenant-mismatch")
    assert refusal(await ask(tenant=claim, chosen="default")) == (403, "tenant-mismatch")


async def test_a_token_never_stands_above_the_tenants(ask, conn):
    await add_tenant(conn, "acme")
    await conn.execute(
        "insert into role (tenant, name, capabilities) values ('default', 'Boss', '{*}')"
    )

    assert refusal(await ask("/api/tenants", roles="Boss")) == (403, "forbidden")
    assert (await ask("/api/tenants/default", roles="Boss")).json()["slug"] == "default"
    assert refusal(await ask("/api/tenants/acme", roles="Boss")) == (404, "tenant-not-found")
    assert refusal(await ask("/api/tenants/acme", method="PUT", roles="Boss"))[0] == 400


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"name": None}, "u-7"),
        ({"name": ""}, "u-7"),
        ({"name": ["Zoë"]}, "u-7"),
        ({"name": "a\x00b"}, "u-7"),
        ({"name": "\ud800"}, "u-7"),
        ({"name": "x" * 201}, "u-7"),
        ({"name": "x" * 200, "email": "\x00"}, "x" * 200),
    ],
)
async def test_a_person_has_a_name_whatever_the_token_says(ask, claims, name):
    assert (await ask(**claims)).json()["actor"] == {"kind": "User", "id": "u-7", "name": name}


@pytest.mark.parametrize("subject", ["", "a\x00b", "\ud800", "x" * 256, "a\nb"])
async def test_a_subject_that_could_not_be_written_down_is_nobody(ask, subject):
    assert refusal(await ask(sub=subject)) == (401, "unauthenticated")


async def test_where_the_claims_are_is_the_operators_word(ask, make_app, issuer, conn):
    await add_tenant(conn, "acme")
    names = ClaimNames("https://a.example/org", "groups", "nick", "mail")

    answer = await ask(
        app=make_app(issuer, claims=names),
        **{"https://a.example/org": "acme", "groups": "Viewer", "nick": "Z"},
    )

    assert (answer.json()["tenant"], answer.json()["roles"]) == ("acme", ["Viewer"])
    assert answer.json()["actor"]["name"] == "Z"


async def test_a_token_that_is_not_believed_is_the_refusal_that_every_credential_gets(
    ask, provider, client
):
    nobody = await client.get("/api/me", headers={"Authorization": "Bearer x"})
    bad = [
        provider.token(rsa_signer("one")),
        provider.token(exp=1),
        provider.token(aud="another"),
        "a.b.c",
        f"{provider.token()}x",
    ]

    for token in bad:
        answer = await ask(token=token)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json() | {"traceId": ""} == nobody.json() | {"traceId": ""}


async def test_without_an_issuer_no_token_is_taken(client, provider):
    answer = await client.get("/api/me", headers={"Authorization": f"Bearer {provider.token()}"})

    assert refusal(answer) == (401, "unauthenticated")
    assert provider.site.received == []


@pytest.mark.parametrize("act", [hang, redirect("https://127.0.0.1/")])
async def test_an_issuer_out_of_reach_is_a_503_for_its_people_only(
    ask, impatient, provider, conn, act
):
    provider.site.pages = dict.fromkeys(provider.site.pages, act)

    away = await ask(app=impatient)
    key = await ask(app=impatient, token=await add_key(conn))

    assert refusal(away) == (503, "identity-provider-unavailable")
    assert away.headers["retry-after"] == "30"
    assert key.status_code == 200


async def test_what_a_person_changes_names_it_in_the_log(ask, conn):
    await conn.execute(
        "insert into role (tenant, name, capabilities) values ('default', 'Own', '{}')"
    )

    assert (await ask("/api/roles/Own", method="DELETE", roles="Admin")).status_code == 204

    row = await (await conn.execute("select actor from audit")).fetchone()
    assert row == ({"kind": "User", "id": "u-7", "name": "Zoë", "email": "zoe@example.org"},)
