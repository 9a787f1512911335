import pytest

pytestmark = pytest.mark.slow

KEYS = "one:" + "A" * 43 + "="
PROCESSES = [
    ("procession", "api"),
    ("procession", "worker"),
    ("procession", "migrate"),
    ("procession", "up"),
    ("procrastinate", "--app", "procession.app.worker.jobs", "worker"),
]


@pytest.mark.parametrize("line", PROCESSES, ids=" ".join)
async def test_a_wrong_setting_stops_every_process_with_status_two(command, line):
    wrong = {"DATABASE_URL": "mysql://ann:hunter2@db/app", "PORT": "http"}

    process = await command(*line, **wrong)

    assert await process.ended() == 2
    assert "  DATABASE_URL=***: takes a postgresql:// URL" in process.said
    assert "  PORT=http: takes an integer from 1 to 65535" in process.said
    assert len(process.said) == 3


@pytest.mark.parametrize("line", [PROCESSES[1], *PROCESSES[3:]], ids=" ".join)
async def test_a_pool_too_small_stops_whatever_works(command, line, database):
    keys = {"SECRETS__KEYS": KEYS}
    small = keys | {"DATABASE_URL": database.url, "WORKFLOWS__RUNNER_CONCURRENCY": 20}

    process = await command(*line, **small)

    assert await process.ended() == 2
    assert "DATABASE__POOL_MAX=12: takes at least 22" in process.said[1]


@pytest.mark.parametrize("line", [PROCESSES[1], *PROCESSES[3:]], ids=" ".join)
async def test_half_a_set_or_a_sum_too_long_stops_whatever_works(command, line, database):
    wrong = {"VERCEL_TOKEN": "hunter2", "JOBS__LEASE_SECONDS": 250}

    process = await command(*line, DATABASE_URL=database.url, SECRETS__KEYS=KEYS, **wrong)

    assert await process.ended() == 2
    assert "VERCEL_TEAM_ID is not set: VERCEL_TOKEN needs it" in process.said[1]
    assert "2 x (30 + 3 x 10 + 2 x (2 + 5) + 30) = 208 s" in process.said[3]
    assert len(process.said) == 4
