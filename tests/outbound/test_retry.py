import asyncio
from datetime import timedelta

import pytest
from fix_receiver import answer, answers, close, hang, redirect

from procession.outbound.breaker import BreakerRule
from procession.outbound.faults import (
    AddressRefused,
    BreakerOpen,
    ConnectionFailed,
    ConnectionLost,
    NameNotResolved,
    Timeout,
)
from procession.outbound.retry import Tries

KEYED = {"Idempotency-Key": "abc"}
QUICK = Tries(each=timedelta(milliseconds=100))


@pytest.fixture
def waits():
    return []


@pytest.fixture
def client(make_client, waits):
    async def sleep(seconds):
        waits.append(seconds)

    def make(**choices):
        return make_client(sleep=sleep, **choices).of("acme")

    return make


@pytest.mark.parametrize("status", [408, 429, 503])
async def test_a_busy_receiver_is_called_again_whatever_the_method(receiver, client, status):
    receiver.will(answer(status), answer(status), answer(201))

    said = await client().post(receiver.url(), content=b"hello")

    assert (said.status_code, said.tries) == (201, 3)
    assert [one.body for one in receiver.received] == [b"hello"] * 3


@pytest.mark.parametrize(
    ("method", "headers", "tries"),
    [
        *((method, {}, 3) for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")),
        *((method, {}, 1) for method in ("POST", "PATCH")),
        ("POST", KEYED, 3),
        ("POST", {"idempotency-KEY": "abc"}, 3),
    ],
)
async def test_a_gateways_word_is_tried_again_when_it_is_safe(
    receiver, client, method, headers, tries
):
    for status in (502, 504):
        receiver.will(*[answer(status)] * tries)

        said = await client().request(method, receiver.url(), headers=headers)

        assert (said.status_code, said.tries) == (status, tries)


@pytest.mark.parametrize("status", [200, 400, 401, 404, 409, 500, 501, 505])
async def test_every_other_answer_is_taken_as_it_is(receiver, client, status):
    receiver.will(answer(status))

    said = await client().get(receiver.url())

    assert (said.status_code, said.tries) == (status, 1)


async def test_the_last_answer_goes_to_the_action_with_its_body(receiver, client):
    receiver.will(answer(503, b"one"), answer(503, b"two"), answer(503, b"three"))

    said = await client().get(receiver.url())

    assert (said.status_code, said.content, said.tries) == (503, b"three", 3)


@pytest.mark.parametrize("behaviour", [hang, close])
@pytest.mark.parametrize(("headers", "tries"), [({}, 1), (KEYED, 3)])
async def test_what_may_have_arrived_is_sent_again_when_it_is_safe(
    receiver, client, behaviour, headers, tries
):
    receiver.will(*[behaviour] * 3)

    with pytest.raises((Timeout, ConnectionLost)) as fault:
        await client(tries=QUICK).post(receiver.url(), headers=headers)

    assert fault.value.tries == tries
    assert len(receiver.received) == tries


async def test_a_webhooks_caller_may_say_that_it_is_safe(receiver, client):
    receiver.will(close, answer(504), answer(204))

    said = await client().post(receiver.url(), resend=True)

    assert (said.status_code, said.tries) == (204, 3)


async def test_a_name_that_does_not_resolve_is_asked_for_again(receiver, client):
    async def resolve(host):
        resolve.times += 1
        if resolve.times < 3:
            raise NameNotResolved(host)
        return ["127.0.0.1"]

    resolve.times = 0

    said = await client(resolve=resolve).post(receiver.url(host="hooks.example"))

    assert (said.status_code, said.tries) == (200, 3)


async def test_a_connection_that_does_not_open_is_tried_again(client):
    with pytest.raises(ConnectionFailed) as fault:
        await client().post("http://127.0.0.1:1/")

    assert fault.value.tries == 3


async def test_a_refused_address_is_never_tried_again(client, waits):
    resolve = answers(hooks_example=["10.0.0.1"])

    with pytest.raises(AddressRefused) as fault:
        await client(resolve=resolve).get("http://hooks.example/")

    assert (fault.value.tries, waits) == (1, [])


async def test_no_retries_is_one_try(receiver, client):
    receiver.will(answer(503))

    said = await client(tries=Tries(retries=0)).get(receiver.url())

    assert said.tries == 1


async def test_a_body_over_a_mebibyte_is_sent_once(receiver, client):
    receiver.will(answer(503), answer(503), answer(200), answer(503))

    most = await client().put(receiver.url(), content=b"a" * 1_048_576)
    more = await client().put(receiver.url(), content=b"a" * 1_048_577)

    assert (most.status_code, most.tries) == (200, 3)
    assert (more.status_code, more.tries) == (503, 1)


async def test_every_try_sends_the_same_but_for_what_is_made_anew(receiver, client):
    receiver.will(answer(503), answer(503))
    made = []

    def stamp():
        made.append(None)
        return {"X-Try": str(len(made))}

    await client().post(receiver.url(), content=b"hello", each_try=stamp)

    assert [one.headers.pop("x-try") for one in receiver.received] == ["1", "2", "3"]
    assert len({(one.body, tuple(one.headers.items())) for one in receiver.received}) == 1


async def test_the_wait_is_between_the_floor_and_three_times_the_one_before(
    receiver, client, waits
):
    receiver.will(*[answer(503)] * 5)

    await client(tries=Tries(retries=5)).get(receiver.url())

    assert len(waits) == 5
    for before, wait in zip([0.2, *waits], waits, strict=False):
        assert 0.2 <= wait <= min(3 * before, 2.0)


async def test_the_wait_is_cut_at_the_ceiling(receiver, client, waits):
    receiver.will(*[answer(503)] * 2)
    floor, ceiling = timedelta(seconds=1), timedelta(seconds=1)

    await client(tries=Tries(floor=floor, ceiling=ceiling)).get(receiver.url())

    assert waits == [1.0, 1.0]


@pytest.mark.parametrize(
    ("value", "asked"), [("3", 3), ("5", 5), ("0", 0), ("soon", 0), ("-1", 0), ("1.5", 0)]
)
async def test_a_retry_after_is_waited_for_before_the_jitter(receiver, client, waits, value, asked):
    receiver.will(answer(503, headers=[("Retry-After", value)]))

    said = await client().get(receiver.url())

    assert said.tries == 2
    assert asked + 0.2 <= waits[0] <= asked + 0.6


@pytest.mark.parametrize("value", ["6", " 7 ", "Fri, 30 Nov 2096 08:00:00 GMT"])
async def test_a_retry_after_above_the_maximum_ends_the_tries(receiver, client, waits, value):
    receiver.will(answer(429, headers=[("Retry-After", value)]))

    said = await client().get(receiver.url())

    assert (said.status_code, said.tries, waits) == (429, 1, [])


async def test_two_retry_afters_are_as_if_absent(receiver, client, waits):
    receiver.will(answer(503, headers=[("Retry-After", "9"), ("Retry-After", "9")]))

    assert (await client().get(receiver.url())).tries == 2
    assert waits[0] < 1


async def test_after_the_last_try_nothing_is_waited_for(receiver, client, waits):
    receiver.will(*[answer(503, headers=[("Retry-After", "1")])] * 3)

    await client().get(receiver.url())

    assert len(waits) == 2


async def test_a_cancelled_call_starts_no_further_try(receiver, make_client):
    asleep = asyncio.Event()

    async def sleep(_):
        asleep.set()
        await asyncio.Event().wait()

    receiver.will(answer(503))
    calling = asyncio.create_task(make_client(sleep=sleep).of("acme").get(receiver.url()))
    await asleep.wait()

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert len(receiver.received) == 1


async def test_an_answer_that_is_not_taken_is_hung_up_on(client):
    ended = asyncio.Event()

    async def take(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        if not ended.is_set():
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nnot")
            await reader.read()
            ended.set()
        else:
            writer.write(b"HTTP/1.1 204 Done\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        said = await client(tries=Tries(each=timedelta(seconds=1))).get(url)

    assert (said.status_code, said.tries) == (204, 2)


async def test_a_call_counts_once_for_the_breaker_with_all_its_tries(receiver, client):
    receiver.will(*[answer(503)] * 6)
    one = client(breaker=BreakerRule(failures=2))
    await one.get(receiver.url())
    assert len(receiver.received) == 3

    await one.get(receiver.url())
    with pytest.raises(BreakerOpen, match=r"^BreakerOpen: 127\.0\.0\.1$"):
        await one.get(receiver.url("/secret?token=abc"))

    assert len(receiver.received) == 6


async def test_answers_that_ask_for_patience_do_not_open_the_breaker(receiver, client):
    one = client(breaker=BreakerRule(failures=1))
    receiver.will(*[answer(429)] * 3, answer(503, headers=[("Retry-After", "60")]), redirect("/x"))

    statuses = [(await one.get(receiver.url())).status_code for _ in range(3)]

    assert statuses == [429, 503, 302]


async def test_a_refused_address_does_not_open_the_breaker(client):
    one = client(breaker=BreakerRule(failures=1), resolve=answers(hooks_example=["10.0.0.1"]))

    for _ in range(3):
        with pytest.raises(AddressRefused):
            await one.get("http://hooks.example/")
