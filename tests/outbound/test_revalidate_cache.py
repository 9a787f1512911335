import json
from datetime import timedelta

import pytest
from fix_actions import an_attempt
from fix_receiver import answer, answers, close, hang

from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.actions.revalidate_cache import VERCEL, RevalidateCache, Vercel
from procession.engine.outcome import Failed, Skipped, Succeeded
from procession.outbound.breaker import BreakerRule
from procession.outbound.retry import Tries

QUICK = Tries(
    each=timedelta(milliseconds=300), floor=timedelta(), ceiling=timedelta(milliseconds=1)
)
WHOSE = {"token": "hunter2", "team_id": "team_1", "project_id": "prj/1"}
ONCE = Tries(retries=0, each=timedelta(milliseconds=300))
WORDS = b'{"error": {"message": "hunter2 says no"}}'


@pytest.fixture
def revalidate(make_client, receiver):
    """Performs a RevalidateCache, and says what came of it."""

    async def perform_it(parameters=None, *, client=None, base=None):
        vercel = Vercel(**WHOSE, base=base or receiver.url(""))
        performed = await perform(
            Registry({"RevalidateCache": RevalidateCache(vercel)}),
            an_attempt("RevalidateCache", {"Tags": "article"} | (parameters or {})),
            client=client or make_client(tries=QUICK),
            limit=timedelta(seconds=10),
        )
        return performed.outcome

    return perform_it


def test_the_address_is_that_of_vercel():
    assert Vercel(**WHOSE).base == VERCEL == "https://api.vercel.com"


async def test_the_tags_are_posted_with_the_token_and_the_key(receiver, revalidate):
    outcome = await revalidate({"Tags": " article-{{id}} ,home\r\nlist\n\n"})

    (came,) = receiver.received
    assert outcome == Succeeded(response_status=200)
    assert (came.method, came.path) == (
        "POST",
        "/v1/edge-cache/invalidate-by-tags?projectIdOrName=prj%2F1&teamId=team_1",
    )
    assert came.headers["authorization"] == "Bearer hunter2"
    assert came.headers["content-type"] == "application/json"
    assert came.headers["idempotency-key"] == "5f0c1d2e8a4b4c6d9e0f112233445566-0"
    assert json.loads(came.body) == {
        "tags": ["article-a-17", "home", "list"],
        "target": "production",
    }


@pytest.mark.parametrize(
    ("given", "target"), [("preview", "preview"), ("production", "production"), (" ", "production")]
)
async def test_the_target_may_be_said(receiver, revalidate, given, target):
    await revalidate({"Target": given})

    assert json.loads(receiver.received[0].body)["target"] == target


@pytest.mark.parametrize(
    ("tags", "are_sent"),
    [
        ("", False),
        (" ,\n,", False),
        ("x" * 256, True),
        ("x" * 257, False),
        (",".join("abcdefghijklmnop"), True),
        (",".join("abcdefghijklmnopq"), False),
    ],
)
async def test_there_are_1_to_16_tags_of_1_to_256_characters(receiver, revalidate, tags, are_sent):
    outcome = await revalidate({"Tags": tags})

    assert len(receiver.received) == are_sent
    if not are_sent:
        assert outcome == Failed("Tags are not 1 to 16 of 1 to 256 characters.")


@pytest.mark.parametrize("target", ["Production", "staging"])
async def test_another_target_fails_for_good(receiver, revalidate, target):
    outcome = await revalidate({"Target": target})

    assert outcome == Failed("Target is neither production nor preview.")
    assert receiver.received == []


async def test_without_a_project_there_is_nothing_to_do(performed):
    said = await performed(
        {"RevalidateCache": RevalidateCache()}, an_attempt("RevalidateCache", {"Tags": "article"})
    )

    assert said.outcome == Skipped(
        "VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID are not set."
    )


@pytest.mark.parametrize("status", [200, 202, 299])
async def test_a_good_answer_is_success(receiver, revalidate, status):
    receiver.will(answer(status))

    assert await revalidate() == Succeeded(response_status=status)


@pytest.mark.parametrize("status", [408, 429, 500, 501, 502, 503, 504, 599])
async def test_an_answer_that_may_change_is_tried_again_later(receiver, revalidate, status):
    receiver.will(*[answer(status, WORDS)] * 3)

    outcome = await revalidate()

    assert outcome == Failed(f"HTTP {status}", retryable=True, response_status=status)
    assert len(receiver.received) == (3 if status in (408, 429, 502, 503, 504) else 1)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 413, 422])
async def test_any_other_answer_fails_for_good(receiver, revalidate, status):
    receiver.will(answer(status, WORDS))

    assert await revalidate() == Failed(f"HTTP {status}", response_status=status)


@pytest.mark.parametrize(("act", "kind"), [(hang, "Timeout"), (close, "ConnectionLost")])
async def test_no_answer_is_tried_again_at_once_and_later(
    receiver, revalidate, make_client, act, kind
):
    receiver.will(act)
    assert await revalidate() == Succeeded(response_status=200)

    receiver.will(act)
    outcome = await revalidate(client=make_client(tries=ONCE))
    assert outcome == Failed(kind, retryable=True)


async def test_a_call_that_never_went_is_tried_again_later(revalidate, make_client):
    client = make_client(tries=ONCE)
    assert await revalidate(base="http://127.0.0.1:1", client=client) == Failed(
        "ConnectionFailed", retryable=True
    )


async def test_an_open_breaker_is_tried_again_later(receiver, revalidate, make_client):
    client = make_client(tries=ONCE, breaker=BreakerRule(failures=1))
    receiver.will(answer(503))
    base = receiver.url("", host="localhost")
    await revalidate(base=base, client=client)

    outcome = await revalidate(base=base, client=client)

    assert outcome == Failed("BreakerOpen: localhost", retryable=True)
    assert len(receiver.received) == 1


async def test_an_inward_address_fails_for_good(revalidate, make_client):
    client = make_client(resolve=answers(api_vercel_com=["10.0.0.1"]))

    outcome = await revalidate(base=VERCEL, client=client)

    assert outcome == Failed("AddressRefused: api.vercel.com")
