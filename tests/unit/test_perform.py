import asyncio
import collections
import dataclasses
import re
import threading
import tracemalloc
from http import HTTPStatus

import msgspec
import pytest
from fix_actions import Watched, an_action, an_attempt, an_entry

from procession.actions import Failed, Parameter, Skipped, Succeeded, Unknown, said
from procession.actions import perform as performing
from procession.engine.entry import Stub
from procession.outbound.faults import AddressRefused, BreakerOpen, ConnectionLost, Timeout


class Odd(BaseException):
    """What derives from no Exception, as some libraries' do, is one all the same."""


def doing(outcome):
    async def perform(_context, _parameters):
        return outcome

    return an_action(perform)


def raising(error):
    async def perform(_context, _parameters):
        raise error

    return an_action(perform)


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded(),
        Succeeded({"id": 7}, 201),
        Failed("no", retryable=True, response_status=503),
        Failed("no"),
        Unknown("perhaps"),
        Skipped("nothing to do"),
    ],
)
async def test_what_an_action_says_is_the_outcome(performed, outcome):
    assert (await performed(doing(outcome))).outcome == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("secret=abc"), Failed("ValueError", retryable=True)),
        (KeyError("secret"), Failed("KeyError", retryable=True)),
        (SystemExit(3), Failed("SystemExit", retryable=True)),
        (KeyboardInterrupt(), Failed("KeyboardInterrupt", retryable=True)),
        (GeneratorExit(), Failed("GeneratorExit", retryable=True)),
        (BaseExceptionGroup("x", [Odd("y")]), Failed("BaseExceptionGroup", retryable=True)),
        (StopAsyncIteration(), Failed("StopAsyncIteration", retryable=True)),
        (ConnectionLost("example.com"), Failed("ConnectionLost", retryable=True)),
        (TimeoutError("at https://ann:pw@example.com"), Unknown("TimeoutError")),
        (Timeout("example.com"), Unknown("Timeout")),
        (asyncio.CancelledError(), Unknown(performing.CUT_OFF)),
        (ExceptionGroup("x", [ValueError(), TimeoutError()]), Unknown("ExceptionGroup")),
        (ExceptionGroup("x", [ValueError()]), Failed("ExceptionGroup", retryable=True)),
        (AddressRefused("example.com"), Failed("AddressRefused: example.com")),
        (BreakerOpen("example.com"), Failed("BreakerOpen: example.com", retryable=True)),
    ],
)
async def test_what_an_action_raises_becomes_an_outcome(performed, error, outcome):
    assert (await performed(raising(error))).outcome == outcome


async def test_a_timeout_is_known_by_its_name_in_any_library(performed):
    error = type("ReadTimeout", (OSError,), {})

    assert (await performed(raising(error()))).outcome == Unknown("ReadTimeout")


@pytest.mark.parametrize("said", [None, "Succeeded", True, {"status": "Succeeded"}, Succeeded])
async def test_what_is_no_outcome_may_have_happened(performed, said):
    outcome = (await performed(doing(said))).outcome

    assert isinstance(outcome, Unknown)
    assert "no outcome" in outcome.error


async def test_reasons_are_redacted_and_cut(performed):
    reason = "401 from https://api.example.com/v1?token=abc for ann@example.com\0 " + "x " * 500

    for kind in (Failed, Unknown, Skipped):
        outcome = (await performed(doing(kind(reason)))).outcome
        assert outcome.error.startswith("401 from https://api.example.com for [redacted]\\u0000 x")
        assert len(outcome.error) == 500


@pytest.mark.parametrize("status", [-1, 1000, 10**12, "200", 2.5])
async def test_a_status_that_cannot_be_kept_is_dropped(performed, status):
    for outcome in (Succeeded(response_status=status), Failed("no", response_status=status)):
        assert (await performed(doing(outcome))).outcome.response_status is None


async def test_a_reason_that_is_no_text_is_not_kept(performed):
    outcome = (await performed(doing(Failed(ValueError("secret"))))).outcome

    assert outcome == Failed("ValueError")


class Wild(str):
    """A text that its author has made his own."""

    __slots__ = ()

    def _raise(self, *_):
        raise RuntimeError

    __getitem__ = __len__ = __str__ = __eq__ = __hash__ = isascii = _raise


class Sided(Failed):
    """An outcome with more to it."""

    def __init__(self, error, hint):
        super().__init__(error)
        object.__setattr__(self, "hint", hint)


class Untold(Failed):
    def __init__(self):
        pass

    @property
    def error(self):
        raise RuntimeError

    @property
    def retryable(self):
        raise SystemExit


class Lazy(collections.UserDict):
    """Outputs that are made when they are asked for."""


class Broken(collections.UserDict):
    def __iter__(self):
        raise RuntimeError


class NoTruth:
    def __bool__(self):
        raise ValueError


def left_out(*names):
    return f"Could not be kept: {', '.join(names)}."


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        (Failed("no", retryable=0), Failed("no")),
        (Failed("no", retryable=1), Failed("no", retryable=True)),
        (Failed("no", retryable=None), Failed("no")),
        (Failed("no", retryable=re.match("a", "a")), Failed("no", retryable=True)),
        (Failed("no", retryable=NoTruth()), Failed(f"no {left_out('retryable')}")),
        (Failed(Wild("no")), Failed("no")),
        (Failed(None), Failed("NoneType")),
        (Failed("no", response_status=HTTPStatus.BAD_GATEWAY), Failed("no", response_status=502)),
        (Failed("no", response_status=True), Failed(f"no {left_out('response_status')}")),
        (Unknown("no", "503"), Unknown(f"no {left_out('response_status')}")),
        (Skipped("no", 10**5000), Skipped(f"no {left_out('response_status')}")),
        (Failed("x " * 400, response_status=2.0), None),
        (Sided("no", "ask Ann"), Failed("no")),
        (Untold(), Failed(left_out("retryable", "response_status", "error"))),
        (object.__new__(Skipped), Skipped(left_out("response_status", "error"))),
        (Succeeded(None), Succeeded(error=left_out("outputs"))),
        (Succeeded(["id"]), Succeeded(error=left_out("outputs"))),
        (Succeeded("id", "ok"), Succeeded(error=left_out("outputs", "response_status"))),
        (Succeeded(Lazy(id=7)), Succeeded({"id": 7})),
        (Succeeded(Broken(id=7)), Succeeded(error=left_out("outputs"))),
        (Succeeded(error=5), Succeeded(error="int")),
    ],
)
async def test_each_field_of_an_outcome_is_made_plain_or_left_out_by_name(performed, told, outcome):
    kept = (await performed(doing(told))).outcome

    if outcome is None:
        assert kept.error.endswith(f"x {left_out('response_status')}")
        assert len(kept.error) in {499, 500}
    else:
        assert kept == outcome
    assert type(kept) in {Succeeded, Failed, Unknown, Skipped}
    plain = {str, int, bool, dict, type(None)}
    assert {type(getattr(kept, one.name)) for one in dataclasses.fields(kept)} <= plain
    assert msgspec.json.decode(msgspec.json.encode(kept), type=type(kept)) == kept


@pytest.mark.parametrize(
    ("body", "kept", "outcome"),
    [
        pytest.param(Wild("sent"), "sent", Succeeded(), id="a text of another class"),
        (7, None, Failed("TypeError", retryable=True)),
        (None, None, Failed("TypeError", retryable=True)),
    ],
)
async def test_a_body_is_kept_as_the_plain_text_that_it_is(performed, body, kept, outcome):
    async def perform(context, _parameters):
        await context.kept.put(body)
        return Succeeded()

    done = await performed(an_action(perform))

    assert (done.body, type(done.body), done.outcome) == (kept, type(kept), outcome)


async def test_what_cannot_even_be_asked_what_it_is_may_have_happened(performed):
    class Odd:
        @property
        def __class__(self):
            raise RuntimeError

    assert (await performed(doing(Odd()))).outcome == Unknown(said.UNREADABLE)


async def test_the_attempt_limit_is_unknown(performed):
    ended = asyncio.Event()

    async def perform(_context, _parameters):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outcome = (await performed(an_action(perform), limit=0.05)).outcome

    assert outcome == Unknown(performing.LIMIT)
    assert ended.is_set()


async def test_the_attempt_limit_is_unknown_whatever_the_action_makes_of_it(performed):
    async def perform(_context, _parameters):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Succeeded()

    assert (await performed(an_action(perform), limit=0.05)).outcome == Unknown(performing.LIMIT)


async def test_an_action_that_cannot_be_stopped_is_left_behind(performed, monkeypatch, caplog):
    monkeypatch.setattr(performing, "GRACE", performing.timedelta(seconds=0.05))
    let_go = asyncio.Event()

    async def perform(_context, _parameters):
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError

    outcome = (await performed(an_action(perform), limit=0.05)).outcome

    assert outcome == Unknown(performing.LIMIT)
    assert "left behind" in caplog.text
    let_go.set()
    (straggler,) = performing._left_behind  # noqa: SLF001
    await asyncio.wait({straggler})
    await asyncio.sleep(0)
    assert not performing._left_behind  # noqa: SLF001


async def test_a_cancellation_from_outside_goes_on(performed):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def perform(_context, _parameters):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise ValueError from None

    attempt = asyncio.create_task(performed(an_action(perform)))
    await begun.wait()
    attempt.cancel()

    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert ended.is_set()


async def test_a_plain_function_runs_in_a_thread(performed):
    def perform(_context, _parameters):
        return Succeeded({"thread": threading.current_thread() is threading.main_thread()})

    assert (await performed(an_action(perform))).outcome == Succeeded({"thread": False})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("secret"), Failed("ValueError", retryable=True)),
        (StopIteration(), Failed("RuntimeError", retryable=True)),
        (SystemExit(3), Failed("SystemExit", retryable=True)),
        (KeyboardInterrupt(), Failed("KeyboardInterrupt", retryable=True)),
        (GeneratorExit(), Failed("GeneratorExit", retryable=True)),
        (BaseExceptionGroup("x", [Odd("y")]), Failed("BaseExceptionGroup", retryable=True)),
        (TimeoutError(), Unknown("TimeoutError")),
        (asyncio.CancelledError(), Unknown(performing.CUT_OFF)),
    ],
)
async def test_what_a_thread_raises_becomes_an_outcome(performed, error, outcome):
    def perform(_context, _parameters):
        raise error

    assert (await performed(an_action(perform))).outcome == outcome


async def test_a_thread_that_hangs_is_left_behind(performed):
    let_go = threading.Event()

    def perform(_context, _parameters):
        let_go.wait(10)
        return Succeeded()

    outcome = (await performed(an_action(perform), limit=0.05)).outcome

    assert outcome == Unknown(performing.LIMIT)
    let_go.set()


async def test_an_entry_that_is_gone_is_nothing_to_act_on(performed):
    outcome = (await performed(raising(ValueError()), an_attempt(entry=None))).outcome

    assert outcome == Skipped(performing.GONE)


async def test_what_a_delete_fired_acts_on_the_stub(performed):
    seen = []

    async def perform(context, _parameters):
        seen.append(context.entry)
        return Succeeded()

    for entry in (None, an_entry()):
        await performed(an_action(perform), an_attempt(entry=entry, trigger="Deleted"))

    assert seen == [Stub(id="a-17", content_type="Article")] * 2


async def test_an_undo_acts_on_the_stub_of_an_entry_that_is_gone(performed):
    seen = []

    async def perform(context, parameters):
        seen.extend((context.entry, context.idempotency_key, context.compensation_of))
        seen.append({name: parameters[name] for name in ("IdempotencyKey", "CompensationOf", "To")})
        return Succeeded()

    await performed(
        an_action(perform), an_attempt(parameters={"To": "x"}, undo_of="Other", entry=None)
    )

    key = "5f0c1d2e8a4b4c6d9e0f112233445566-0-undo"
    assert seen == [
        Stub(id="a-17", content_type="Article"),
        key,
        0,
        {"IdempotencyKey": key, "CompensationOf": "0", "To": "x"},
    ]


async def test_parameters_are_rendered_and_the_reserved_ones_set(performed):
    seen = {}

    async def perform(_context, parameters):
        seen.update(parameters)
        return Succeeded()

    await performed(
        an_action(perform, parameters=(Parameter("Key", credential=True),)),
        an_attempt(
            parameters={
                "Line": "{{data.Title}} {{data.Cost}} {{actions.1.ref}}",
                "Key": "{{status}}",
                "ApiToken": "{{status}}",
            },
            outputs={1: {"ref": "r1"}},
            number=3,
        ),
    )

    assert seen == {
        "Line": "Hello {{data.Cost}} r1",
        "Key": "{{status}}",
        "ApiToken": "{{status}}",
        "IdempotencyKey": "5f0c1d2e8a4b4c6d9e0f112233445566-0",
        "RunId": "5f0c1d2e-8a4b-4c6d-9e0f-112233445566",
        "WorkflowId": "00000000-0000-0000-0000-000000000007",
        "TriggerEvent": "Published",
        "Attempt": "3",
    }


async def test_a_credential_that_its_action_cut_in_two_leaves_nothing(performed):
    async def perform(_context, parameters):
        return Failed(f"It said: not {parameters['Key']}"[:25])

    action = an_action(perform, parameters=(Parameter("Key", credential=True),))
    attempt = an_attempt(parameters={"Key": "correct horse battery"})

    assert (await performed(action, attempt)).outcome == Failed("It said: not [redacted]")


async def test_of_a_long_answer_that_is_told_no_more_is_masked_than_may_be_kept(performed):
    answer = "&amp;" + "a b " * 2_000_000

    async def perform(_context, parameters):
        return Failed(f"It said {parameters['Key']}: {answer}")

    action = an_action(perform, parameters=(Parameter("Key", credential=True),))
    attempt = an_attempt(parameters={"Key": "correct horse battery"})

    tracemalloc.start()
    try:
        outcome = (await performed(action, attempt)).outcome
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert outcome.error.startswith("It said [redacted]: &amp;a b")
    assert peak < len(answer) + 8_000_000


@pytest.mark.parametrize("kept", [6, 7, 100, 1_469])
async def test_a_credential_across_the_end_of_what_is_masked_leaves_nothing(performed, kept):
    async def perform(_context, parameters):
        key = parameters["Key"]
        before = said.READ - kept
        return Failed(key * (before // len(key)) + "." * (before % len(key)) + key)

    action = an_action(perform, parameters=(Parameter("Key", credential=True),))
    attempt = an_attempt(parameters={"Key": "correct-horse-battery" * 70})

    error = (await performed(action, attempt)).outcome.error
    assert "correct" not in error
    assert "horse" not in error


async def test_an_output_that_is_missing_may_yet_come(performed):
    attempt = an_attempt(parameters={"Line": "{{actions.1.ref}}"})

    outcome = (await performed(doing(Succeeded()), attempt)).outcome

    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert "{{actions.1.ref}}" in outcome.error


async def test_a_parameter_that_grows_too_long_fails_for_good(performed):
    entry = an_entry(data={"Title": "x" * 600_000})
    attempt = an_attempt(parameters={"Line": "{{data.Title}}{{data.Title}}"}, entry=entry)

    outcome = (await performed(doing(Succeeded()), attempt)).outcome

    assert outcome == Failed("The parameter Line is too long.")


@pytest.mark.parametrize(
    ("line", "title", "is_aside"),
    [
        ("{{data.Title}}", "x", False),
        ("{{data.Title}}" * 2_000, "x", True),
        ("{{#each data.Title}}" + "{{item.Name}}" * 30 + "{{/each}}", [], True),
        ("{{data.Title}}", "x" * 20_000, True),
        ("no placeholder" * 2_000, "x" * 20_000, False),
    ],
)
async def test_what_takes_a_while_to_fill_in_does_not_hold_up_the_loop(
    performed, line, title, is_aside
):
    data = Watched({"Title": title})
    attempt = an_attempt(parameters={"Line": line}, entry=an_entry(data=data))

    assert (await performed(doing(Succeeded()), attempt)).outcome == Succeeded()
    assert bool(data.threads - {threading.main_thread()}) is is_aside
    assert not is_aside or threading.main_thread() not in data.threads


async def test_the_attempt_limit_counts_what_filling_in_takes(performed):
    data = Watched({"Title": "x" * 20_000})
    data.open.clear()
    attempt = an_attempt(parameters={"Line": "{{data.Title}}"}, entry=an_entry(data=data))

    outcome = (await performed(doing(Succeeded()), attempt, limit=0.05)).outcome

    data.open.set()
    assert outcome == Unknown(performing.LIMIT)


async def test_a_type_that_is_not_served_waits_for_who_serves_it(performed):
    outcome = (await performed({}, an_attempt("Nope"))).outcome

    assert isinstance(outcome, Failed)
    assert outcome.retryable


class Slow(Watched):
    """Its price takes until the gate opens, and it knows how often that was asked for."""

    def __init__(self, *given):
        super().__init__(*given)
        self.gate, self.asked = threading.Event(), 0

    def __getitem__(self, name):
        if name == "Price":
            self.asked += 1
            self.gate.wait(10)
        return super().__getitem__(name)


async def test_what_nobody_waits_for_any_more_is_not_filled_in_to_its_end(performed):
    readers = [{"contentType": "Person", "id": f"p{one}"} for one in range(50)]
    data = Slow({"Title": readers, "Price": "x" * 20_000})
    line = "{{#each data.Title}}{{data.Price}}{{/each}}"
    attempt = an_attempt(parameters={"Line": line}, entry=an_entry(data=data))

    outcome = (await performed(doing(Succeeded()), attempt, limit=0.2)).outcome
    data.gate.set()
    for thread in data.threads:
        await asyncio.to_thread(thread.join, 10)

    assert isinstance(outcome, Unknown)
    assert data.asked <= 1  # none, where that came first
