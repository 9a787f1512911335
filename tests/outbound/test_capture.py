import asyncio
import gzip
import random
import resource
import time
import tracemalloc
import zlib

import pytest
from fix_receiver import answer, drip, endless, raw

from procession.outbound import capture
from procession.outbound.capture import EXCERPT, WHOLE, Body, Capture, read
from procession.outbound.faults import AnswerTooLarge

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n"


async def excerpt(make_client, receiver):
    async with asyncio.timeout(10):
        return await make_client().of("acme").get(receiver.url(), capture=EXCERPT)


async def test_a_gigabyte_costs_neither_time_nor_memory(receiver, make_client):
    receiver.will(endless(HEAD + b"\r\n", b"a" * 65_536))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()

    said = await excerpt(make_client, receiver)

    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (said.status_code, said.content) == (200, b"a" * 4096)
    assert time.monotonic() - began < 2
    assert grown < 8 * 1024  # kilobytes, most of them the receiver's own


async def test_a_body_without_an_end_is_cut_off_too(receiver, make_client):
    receiver.will(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 65_536))

    assert (await excerpt(make_client, receiver)).content == b"a" * 4096


async def test_a_packed_gigabyte_is_not_unpacked(receiver, make_client):
    packed = gzip.compress(bytes(50_000_000))
    receiver.will(answer(200, packed, [("Content-Encoding", "gzip")]))

    assert (await excerpt(make_client, receiver)).content == bytes(4096)


async def test_a_body_that_drips_has_its_own_time(receiver, make_client, monkeypatch):
    monkeypatch.setattr(capture, "SECONDS", 0.2)
    receiver.will(drip(HEAD + b"\r\n", b"a", 0.01))

    said = await excerpt(make_client, receiver)

    assert said.status_code == 200
    assert 1 <= len(said.content) < 100


async def test_a_small_body_leaves_the_connection_open(receiver, make_client):
    receiver.will(answer(200, b"a" * 60_000))
    client = make_client().of("acme")

    for _ in range(2):
        await client.get(receiver.url(), capture=EXCERPT)

    assert [one.connection for one in receiver.received] == [1, 1]


async def test_a_body_that_was_not_read_to_its_end_closes_it(receiver, make_client):
    receiver.will(answer(200, b"a" * 70_000))
    client = make_client().of("acme")

    for _ in range(2):
        await client.get(receiver.url(), capture=EXCERPT)

    assert [one.connection for one in receiver.received] == [1, 2]


async def test_a_packed_body_is_unpacked_for_who_needs_it_whole(receiver, make_client):
    body = b'{"id":7}' * 1000
    receiver.will(
        answer(200, gzip.compress(body), [("Content-Encoding", "GZIP")]),
        answer(200, zlib.compress(body), [("Content-Encoding", "deflate")]),
        answer(200, zlib.compress(body)[2:-4], [("Content-Encoding", "deflate")]),
        answer(200, body, [("Content-Encoding", "br")]),
        answer(200, body, [("Content-Encoding", "gzip")]),
    )
    client = make_client().of("acme")

    for _ in range(5):
        assert (await client.get(receiver.url())).content == body


async def test_a_bomb_that_is_needed_whole_is_a_fault(receiver, make_client):
    packed = gzip.compress(bytes(20_000_000))
    receiver.will(answer(200, packed, [("Content-Encoding", "gzip")]))

    with pytest.raises(AnswerTooLarge):
        await make_client().of("acme").get(receiver.url())


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("whole", [True, False])
def test_a_body_is_the_same_in_whatever_pieces_it_comes(size, whole):
    plain = bytes(range(256)) * 16
    packed = zlib.compress(plain)
    for encoding, sent in (
        ("", plain),
        ("gzip", gzip.compress(plain)),
        ("gzip", b"".join(gzip.compress(plain[at : at + 1000]) for at in range(0, 4096, 1000))),
        ("gzip", plain[2:] + plain[:2]),
        ("deflate", packed),
        ("deflate", packed[2:-4]),
    ):
        body = Body(Capture(5000, 4096, whole=whole), encoding)

        more = [body.take(sent[at : at + size]) for at in range(0, len(sent), size)]

        assert bytes(body) == (sent if sent[:4] == plain[2:6] else plain)
        assert all(more)
        assert body.is_whole


PLAIN = b'{"plain": 1}' * 3
LONG = random.Random(7).randbytes(3_000).hex().encode()


def wrong(packed, at):
    return packed[:at] + bytes((packed[at] ^ 1,)) + packed[at + 1 :]


@pytest.mark.parametrize(
    ("encoding", "sent", "kept"),
    [
        ("gzip", wrong(gzip.compress(LONG, mtime=0), -6), LONG),
        ("deflate", wrong(zlib.compress(LONG), -1), LONG),
        ("gzip", wrong(gzip.compress(b"hello", mtime=0), -6), b"hello"),
        ("gzip", gzip.compress(LONG, mtime=0) + wrong(gzip.compress(LONG, mtime=0), -6), LONG * 2),
        ("gzip", wrong(gzip.compress(b"", mtime=0), -6), wrong(gzip.compress(b"", mtime=0), -6)),
        ("gzip", PLAIN, PLAIN),
        ("deflate", PLAIN, PLAIN),
        ("deflate", zlib.compress(LONG)[2:-4], LONG),
        ("deflate", zlib.compress(b"hello")[2:-4], b"hello"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_what_breaks_is_kept_as_far_as_it_was_read_in_whatever_pieces(encoding, sent, kept, size):
    body = Body(WHOLE, encoding)

    for at in range(0, len(sent), size):
        body.take(sent[at : at + size])

    assert bytes(body) == kept


@pytest.mark.parametrize("window", [31, 15, -15])
def test_what_breaks_anywhere_is_read_alike_in_whatever_pieces(window):
    packer = zlib.compressobj(wbits=window)
    packed = packer.compress(LONG) + packer.flush()
    chance = random.Random(7)

    for _ in range(12):
        sent = wrong(packed, chance.randrange(len(packed)))
        at_once, by_bytes = (Body(WHOLE, "gzip" if window > 15 else "deflate") for _ in range(2))
        at_once.take(sent)
        for at in range(len(sent)):
            if not by_bytes.take(sent[at : at + 1]):
                break

        assert bytes(at_once) == bytes(by_bytes)


@pytest.mark.parametrize("behind", [b"j", b"j" * 100_000, b"\0" * 9, b"\x1f\x8bno", b"\x1f"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_is_behind_the_end_of_a_packed_body_is_no_part_of_it(encoding, behind):
    packed = (gzip if encoding == "gzip" else zlib).compress(b"hello")
    at_once, by_itself = (Body(WHOLE, encoding) for _ in range(2))

    at_once.take(packed + behind)
    by_itself.take(packed)
    by_itself.take(behind)

    assert bytes(at_once) == bytes(by_itself) == b"hello"
    assert at_once.is_whole
    assert by_itself.is_whole


def test_a_body_is_over_once_something_is_behind_its_end():
    body, cut = (Body(WHOLE, "gzip") for _ in range(2))
    packed = gzip.compress(b"hello")

    assert body.take(packed)
    assert not body.take(b"junk")
    assert cut.take(packed[:-8])
    assert not cut.take(b"no checks")
    assert (bytes(body), bytes(cut)) == (b"hello", b"hello")


def test_many_empty_streams_cost_no_more_than_their_length():
    piece = gzip.compress(b"") * 3_000
    body, began = Body(WHOLE, "gzip"), time.process_time()

    for _ in range(20):
        assert body.take(piece)

    assert bytes(body) == b""
    assert time.process_time() - began < 1


async def test_others_have_turns_while_many_small_pieces_are_taken():
    turns = 0

    async def pieces():
        for _ in range(200_000):
            yield b"a"

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    content = await read(pieces(), "hooks.example", WHOLE)
    task.cancel()

    assert len(content) == 200_000
    assert turns > 10


@pytest.mark.parametrize("chunk", [b"1;" + b"x" * 60_000 + b"\r\na\r\n", b"1\r\na\r\n" * 1_000])
async def test_what_frames_a_body_counts_too(receiver, make_client, chunk):
    receiver.will(endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk))
    small = Capture(65_536, 65_536, whole=True)

    with pytest.raises(AnswerTooLarge):
        await make_client().of("acme").get(receiver.url(), capture=small)


async def test_a_body_in_chunks_may_be_as_long_as_any(receiver, make_client):
    chunk = b"40\r\n" + b"a" * 64 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    receiver.will(raw(head + chunk * 1024 + b"0\r\n\r\n"))
    exact = Capture(65_536, 65_536, whole=True)

    said = await make_client().of("acme").get(receiver.url(), capture=exact)

    assert said.content == b"a" * 65_536


def test_a_body_at_its_bound_is_whole_and_one_byte_more_is_not():
    exact, over, long = (Body(Capture(10, 5, whole=True)) for _ in range(3))

    assert exact.take(b"12345")
    assert not over.take(b"123456")
    assert not long.take(b"1" * 11)
    assert (exact.is_whole, over.is_whole, bytes(over)) == (True, False, b"12345")


def test_a_bomb_is_unpacked_no_further_than_is_kept():
    packed = gzip.compress(bytes(50_000_000))
    tracemalloc.start()

    body = Body(EXCERPT, "gzip")
    for at in range(0, len(packed), 4096):
        body.take(packed[at : at + 4096])

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_no_more_is_taken_from_the_wire_than_is_allowed():
    body = Body(Capture(10, 5))

    assert body.take(b"1" * 10)
    assert not body.take(b"1")
    assert bytes(body) == b"11111"
