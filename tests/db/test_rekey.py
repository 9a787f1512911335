"""Writing every stored secret again under the first key."""

import json
import uuid

import pytest
from fix_api import add_tenant
from msgspec.structs import replace

from procession.actions.load import built_in, load
from procession.app.health import Keys
from procession.engine.connector_body import parse_connector
from procession.engine.credentials import declared
from procession.engine.workflow import ActionDefinition, Compensate, Definition
from procession.queue import connectors, first_key, rekey, workflows
from procession.queue.audit import By
from procession.queue.connectors import Saving
from procession.queue.rekey import Rekey
from procession.queue.sealing import SEALED, Place, Ring
from procession.queue.workflow_changes import Draft
from procession.queue.workflow_secrets import Sealer

OLD, NEW = Ring({"old": bytes(32)}), Ring({"new": bytes(range(32))})
BOTH = Ring({"new": bytes(range(32)), "old": bytes(32)})
PICK = declared(load(built_in(), []).catalogue())
CHILD = "actions[1].parameters.ThenActions[0].parameters.Secret"
URL = "https://hooks.example.org"


def definition(secret):
    parameters = {"Url": URL, "Secret": secret}
    child = json.dumps([{"type": "Webhook", "parameters": parameters}])
    nested = {"Condition": "{{status}} == a", "ThenActions": child}
    return Definition(
        name="W",
        trigger_content_types=("A",),
        trigger_events=("Created",),
        actions=(
            ActionDefinition(
                type="Webhook",
                parameters=parameters,
                compensate=Compensate(type="Webhook", parameters=parameters),
            ),
            ActionDefinition(type="Conditional", parameters=nested),
        ),
    )


async def flow(conn, tenant="default", ring=OLD, secret="s1"):
    id_ = uuid.uuid4()
    draft = Sealer(ring, PICK, tenant, id_).sealed(Draft(definition(secret), True), None)
    await workflows.insert(conn, tenant, id_, draft.definition, enabled=True)
    return id_


async def connect(conn, tenant="default", ring=OLD):
    body = {"name": "L", "baseUrl": URL, "auth": "BearerToken", "secrets": {"token": "t1"}}
    saving = Saving(tenant, "ledger", parse_connector(body, lambda _: False), ring)
    await connectors.save(conn, saving, By())


async def sealed(conn):
    """Every sealed text that is kept."""
    cursor = await conn.execute(
        "select definition::text from workflow_version union all"
        " select secrets::text from connector"
    )
    return [one for (text,) in await cursor.fetchall() for one in SEALED.finditer(text)]


async def test_every_secret_of_every_tenant_is_under_the_first_key(conn, monkeypatch):
    monkeypatch.setattr(rekey, "BATCH", 2)
    for tenant in ("default", "acme", "bravo"):
        await add_tenant(conn, tenant)
        for _ in range(3):
            workflow = await flow(conn, tenant)
        await connect(conn, tenant)

    batches = [count async for count in Rekey(BOTH, PICK).batches(conn)]
    again = await Rekey(BOTH, PICK).run(conn)

    assert batches == [2, 2, 2, 2, 1, 2, 1]
    assert {one[1] for one in await sealed(conn)} == {"new"}
    assert (again.renewed, again.current, again.unreadable) == (0, 30, [])
    made = await workflows.one(conn, "bravo", workflow)
    place = Place("bravo", str(workflow), "actions[0].parameters.Secret")
    assert NEW.open(made.definition.actions[0].parameters["Secret"], place) == "s1"
    kept = await connectors.one(conn, "acme", "ledger")
    assert kept.opened(NEW) == {"token": "t1"}


async def test_nothing_else_of_a_row_is_changed(conn):
    await flow(conn)
    await connect(conn)
    before = await (await conn.execute("select updated_at from connector")).fetchall()

    found = await Rekey(BOTH, PICK).run(conn)

    assert (found.renewed, found.current) == (4, 0)
    assert await (await conn.execute("select updated_at from connector")).fetchall() == before
    assert await (await conn.execute("select count(*) from audit")).fetchone() == (1,)


async def test_one_that_no_key_opens_is_told_and_left(conn):
    workflow = await flow(conn)
    await connect(conn)
    before = [one[0] for one in await sealed(conn)]

    found = await Rekey(NEW, PICK).run(conn)

    assert [one[0] for one in await sealed(conn)] == before
    assert found.unreadable == [
        f"default: workflow {workflow}, version 1, actions[0].compensate.parameters.Secret",
        f"default: workflow {workflow}, version 1, actions[0].parameters.Secret",
        f"default: workflow {workflow}, version 1, {CHILD}",
        "default: connector ledger, token",
    ]


async def test_what_an_older_release_kept_in_plain_is_sealed(conn):
    id_ = uuid.uuid4()
    await workflows.insert(conn, "default", id_, definition("plain-secret"), enabled=True)

    found = await Rekey(NEW, PICK).run(conn)

    cursor = await conn.execute("select definition::text from workflow_version")
    ((text,),) = await cursor.fetchall()
    assert found.renewed == 3
    assert "plain-secret" not in text


async def test_what_a_newer_release_wrote_is_left_to_it(conn):
    workflow = await flow(conn)
    await conn.execute(
        "update workflow_version set definition = (definition::jsonb || '{\"later\": 1}')::json"
    )

    found = await Rekey(BOTH, PICK).run(conn)

    assert found.left == [f"default: workflow {workflow}, version 1"]
    assert {one[1] for one in await sealed(conn)} == {"old"}


async def test_a_save_seals_anew_what_it_keeps_under_an_older_key(conn):
    workflow = await flow(conn)
    stored = (await workflows.one(conn, "default", workflow)).definition
    paths = [
        "actions[0].compensate.parameters.Secret",
        "actions[0].parameters.Secret",
        CHILD,
    ]
    sealer = Sealer(BOTH, PICK, "default", workflow)

    same = sealer.sealed(Draft(stored, True, frozenset(paths)), stored)
    renamed = replace(stored, name="Renamed")
    other = sealer.sealed(Draft(renamed, True, frozenset(paths)), stored)

    assert same.definition == stored
    assert "v1.old." not in str(other.definition)


async def test_the_first_key_is_noted_once(conn):
    assert await first_key.noted(conn) is None
    await first_key.note(conn, OLD.digest)
    await first_key.note(conn, OLD.digest)
    await first_key.note(conn, BOTH.digest)

    noted = await first_key.noted(conn)
    assert (BOTH.holds(noted), NEW.holds(noted), OLD.holds(noted)) == (True, True, False)


@pytest.mark.parametrize("ring", [NEW, BOTH])
async def test_a_worker_that_holds_it_is_ready(conn, pool, ring):
    await first_key.note(conn, NEW.digest)

    assert await Keys(ring).reasons(pool) == []


async def test_a_worker_that_lacks_it_says_so_once_and_is_not_ready(conn, pool, caplog):
    keys = Keys(OLD)
    before = await keys.reasons(pool)
    await first_key.note(conn, BOTH.digest)

    lacking = [await keys.reasons(pool) for _ in range(3)]

    assert before == []
    assert lacking == [["secrets"]] * 3
    assert [one.levelname for one in caplog.records] == ["ERROR"]
