"""Commands whose files, terminals and words are not what they should be."""

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from fix_remote import FLOW


@pytest.fixture
def file(tmp_path):
    return tmp_path / "announce.json"


@pytest.fixture
def full():
    """A device that takes nothing more."""
    with Path("/dev/full").open("w", encoding="utf-8") as device:
        yield device


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"name": ' + "1" * 5000 + "}"], ids=["deep", "long"]
)
async def test_a_file_that_no_reader_takes_is_told(remote, file, text):
    file.write_text(text)

    _, err, status = await remote.type("workflows", "apply", file)

    assert (err, status) == (
        f"procession: {file} is nested too deep, or has a number too long\n",
        2,
    )


async def test_where_the_terminal_lacks_signs_they_are_told_as_escapes(remote, file, monkeypatch):
    file.write_text(json.dumps(FLOW | {"name": "Zoë 🎉"}))
    latin = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", latin)

    await remote.type("workflows", "apply", file)
    await remote.type("workflows", "list", "--json")

    latin.seek(0)
    first, _, listed = latin.read().partition("\n")
    assert first == r"Zo\u00eb \ud83c\udf89: created, version 1"
    assert json.loads(listed)[0]["name"] == "Zoë 🎉"


async def test_an_answer_that_cannot_be_written_is_told_as_that(remote, full, monkeypatch):
    monkeypatch.setattr(sys, "stdout", full)

    _, err, status = await remote.type("workflows", "list")

    assert (err, status) == (
        "procession: The answer cannot be written: No space left on device.\n",
        1,
    )


async def test_a_key_that_cannot_be_read_is_told(remote, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key = tmp_path / ".procession" / "key"
    key.parent.mkdir()
    key.write_bytes(b"\xff")

    _, err, status = await remote.type("runs", "list", PROCESSION_KEY="")

    assert (err, status) == ("procession: .procession/key holds no key\n", 2)


async def test_a_password_in_the_address_is_not_told(remote):
    _, err, status = await remote.type("runs", "list", PROCESSION_URL="http://ann:pass@127.0.0.1:9")

    assert status == 1
    assert err.startswith("procession: http://127.0.0.1:9 does not answer (")


@pytest.mark.parametrize("option", ["--name", "--role", "--tenant"])
async def test_bytes_that_are_no_text_are_refused(remote, option):
    line = ["key", "create", "--name", "x", option, "\udcff"]

    _, err, status = await remote.type(*line)

    assert status == 2
    assert f"argument {option}: takes text in UTF-8" in err
