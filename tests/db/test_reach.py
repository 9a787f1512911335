"""What is said of a Postgres that cannot be worked with."""

from dataclasses import replace

import pytest
from psycopg.conninfo import make_conninfo

from procession.queue.reach import out_of_reach


def at(database, **wrong):
    """The database's address with something else in its place, and a password."""
    return replace(database, url=make_conninfo(database.url, password="hunter2", **wrong))


async def test_one_that_answers_is_in_reach(database):
    assert await out_of_reach(database) is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"user": "nobody"}, "does not let nobody into the database test_"),
        ({"user": "nobody"}, '(role "nobody" does not exist)'),
        ({"dbname": "nowhere"}, "into the database nowhere (database"),
        (
            {"host": "127.0.0.1", "port": 1},
            "Postgres does not answer at 127.0.0.1 port 1 for the database test_",
        ),
        ({"host": "127.0.0.1", "port": 1}, "(Connection refused)"),
    ],
)
async def test_why_it_is_out_of_reach_is_told_with_the_place_and_without_the_password(
    database, wrong, says
):
    said = await out_of_reach(at(database, **wrong))

    assert says in said
    assert said.startswith("Postgres ")
    assert " port " in said
    assert "hunter2" not in said
