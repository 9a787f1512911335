import base64

import pytest

from procession.app.checks import SettingsError, read, read_or_exit
from procession.app.environment import unknown
from procession.app.settings import Settings

URL = "postgresql://ann:hunter2@db.example.org/app"
KEY = base64.b64encode(bytes(32)).decode()


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """An environment with nothing of ours but DATABASE_URL and SECRETS__KEYS."""
    for field in Settings.model_fields.values():
        monkeypatch.delenv(str(field.alias), raising=False)
    monkeypatch.setenv("DATABASE_URL", URL)
    monkeypatch.setenv("SECRETS__KEYS", f"a:{KEY}")
    return monkeypatch


def faults(process="worker"):
    with pytest.raises(SettingsError) as refused:
        read(process)
    return refused.value.faults


def test_defaults_start_every_process():
    for process in ("api", "worker", "migrate", "up"):
        settings = read(process)

        assert settings.database.url == URL
        assert settings.database.pool_max == 12
        assert settings.workflows__runner_concurrency == 1


def test_the_worker_listens_one_port_above_the_api(environment):
    assert (read("api").port_of("api"), read("worker").port_of("worker")) == (8000, 8001)
    environment.setenv("PORT", "9000")
    assert (read("api").port_of("api"), read("worker").port_of("worker")) == (9000, 9000)


def test_a_database_must_be_named(environment):
    environment.delenv("DATABASE_URL")

    assert faults() == ["DATABASE_URL is not set: takes a postgresql:// URL"]


@pytest.mark.parametrize("process", ["api", "worker", "rekey", "up"])
def test_keys_for_what_is_kept_secret_are_demanded(environment, process):
    environment.delenv("SECRETS__KEYS")

    (fault,) = faults(process)

    assert fault.startswith("SECRETS__KEYS is not set: takes id:key pairs separated by commas")


def test_to_migrate_takes_no_keys(environment):
    environment.delenv("SECRETS__KEYS")

    assert read("migrate").secrets__keys == {}


def test_an_empty_value_is_as_if_unset(environment):
    environment.setenv("PORT", "")
    environment.setenv("CONTROL_TOKEN", "")

    assert read("api").port_of("api") == 8000
    assert read("api").control_token == ()


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("DATABASE__SCHEMA", "Public", "a name of at most 63 of a-z, 0-9 and _, not a digit first"),
        ("DATABASE__POOL_MAX", "201", "an integer from 2 to 200"),
        ("DATABASE__POOL_MAX", "1_0", "an integer from 2 to 200"),
        ("DATABASE__POOL_MAX", "10.0", "an integer from 2 to 200"),
        ("DATABASE__POOL_MAX", "+10", "an integer from 2 to 200"),
        ("DATABASE__POOL_MAX", "٣", "an integer from 2 to 200"),
        ("HOST", "example.org", "an IP address, such as 0.0.0.0 or ::"),
        ("PORT", "0", "an integer from 1 to 65535"),
        ("APP__CONSOLE_URL", "console.example", "an absolute http or https address"),
        ("APP__CONSOLE_URL", "ftp://console.example", "an absolute http or https address"),
        ("LOG__LEVEL", "loud", "debug, info, warning or error"),
        ("LOG__FORMAT", "xml", "json or text"),
        ("WORKFLOWS__RUNNER_ENABLED", "on", "true, false, 1, 0, yes or no"),
        ("WORKFLOWS__RUNNER_CONCURRENCY", "0", "an integer from 1 to 20"),
        ("WORKFLOWS__RUNNER_CONCURRENCY", "21", "an integer from 1 to 20"),
        ("WORKFLOWS__MAX_DEPTH", "101", "an integer from 0 to 100"),
        ("WORKFLOWS__BACKLOG_INTERVAL_SECONDS", "-1", "an integer from 0 to 3600"),
        ("WORKFLOWS__BACKLOG_INTERVAL_SECONDS", "3601", "an integer from 0 to 3600"),
        ("WORKFLOWS__OUTBOUND__MAX_DELAY_SECONDS", "0", "a number above 0, up to 60"),
        ("WORKFLOWS__OUTBOUND__MAX_DELAY_SECONDS", "nan", "a number above 0, up to 60"),
        ("WORKFLOWS__OUTBOUND__ATTEMPT_TIMEOUT_SECONDS", "1e1", "a number above 0, up to 300"),
        (
            "OUTBOUND__ALLOWED_NETWORKS",
            "127.0.0.1/8",
            "networks such as 127.0.0.0/8, separated by commas",
        ),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name_and_what_it_takes(
    environment, name, value, takes
):
    environment.setenv(name, value)

    assert faults() == [f"{name}={value}: takes {takes}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://ann:hunter2@db/app"),
        ("DATABASE_URL", "postgresql://ann:hunter2@db/app?nonsense=1"),
        ("CONTROL_TOKEN", "short-hunter2"),
        ("CONTROL_TOKEN", "hunter2-ünsendbar" * 4),
        ("CONTROL_TOKEN", f"{'a' * 32},{'b' * 32},hunter2{'c' * 32}"),
        ("METRICS__SCRAPE_KEY", "short-hunter2"),
        ("METRICS__SCRAPE_KEY", " hunter2-and-more-of-it"),
        ("SECRETS__KEYS", "a:hunter2"),
        ("SECRETS__KEYS", f"a:{KEY},a:{KEY}"),
        ("SECRETS__KEYS", f"Big:{KEY}"),
    ],
)
def test_a_secret_that_is_refused_is_not_shown(environment, name, value):
    environment.setenv(name, value)

    (fault,) = faults()

    assert fault.startswith(f"{name}=***: takes ")
    assert "hunter2" not in fault


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@Tail9@db.example.org:5432/app",
        "postgresql://ann:hunter2/Tail9@db.example.org:5432/app",
        "postgresql://ann:1234/hunter2@db.example.org:5432/app",
        "postgresql://ann:12?user=/hunter2@db.example.org:5432/app",
        "postgresql://ann@example.org:hunter2@db.example.org/app",
        "postgresql://ann:hunter2%zz@db.example.org/app",
    ],
)
def test_a_password_that_would_be_read_as_something_else_is_refused(environment, url):
    environment.setenv("DATABASE_URL", url)

    assert "\n".join(faults()) == (
        "DATABASE_URL=***: takes a postgresql:// URL, in which characters of the password such as"
        " @, / and % must be percent-encoded (%40, %2F, %25)"
    )


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ("?port=99999999", "port"),
        ("?port=54x9", "port"),
        ("?port=0", "port"),
        ("?port=1,2", "options together"),
        ("?sslmode=abc", "sslmode"),
        ("?sslmode=abc&port=x", "port and sslmode"),
        ("?sslnegotiation=direct&sslmode=prefer", "sslnegotiation"),
        ("?target_session_attrs=abc", "target_session_attrs"),
        ("?connect_timeout=abc", "connect_timeout"),
        ("?keepalives=1x", "keepalives"),
        ("?hostaddr=db", "hostaddr"),
        ("?service=hunter2", "service"),
    ],
)
def test_a_database_that_can_never_be_connected_to_is_refused(environment, rest, what):
    environment.setenv("DATABASE_URL", URL + rest)

    assert [one for one in faults() if not one.endswith(f"Postgres takes no such {what}")] == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql:///app",
        "postgresql://ann:a#b?c:d@db.example.org/app",
        "postgresql://ann%40org:hunter%2F2@[2001:db8::1]:5432/app",
        "postgres://ann:@/app?host=/run/postgresql&port=5433",
        "postgresql://one,two:5433/app?target_session_attrs=read-write",
        "postgresql://one:1,two:2/app?load_balance_hosts=random",
        f"{URL}?sslmode=require&sslnegotiation=direct",
        f"{URL}?sslmode=verify-full&sslrootcert=system&channel_binding=require",
        f"{URL}?gssencmode=require",
        f"{URL}?hostaddr=192.0.2.1&tcp_user_timeout=5000&keepalives=1&connect_timeout=3",
    ],
)
def test_every_way_to_name_a_database_is_taken(environment, url):
    environment.setenv("DATABASE_URL", url)

    assert read("worker").database.url == url


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("PORT", "80\n  HOST=::\x1b[2J", "80\\n  HOST=::\\x1b[2J"),
        (
            "AUTH__OIDC__ISSUER",
            "https://ann:hunt@er2/x@login.example.com",
            "https://***@login.example.com",
        ),
        ("APP__CONSOLE_URL", "ftp://hunter2@console.example", "ftp://***@console.example"),
        ("HOST", "ann:hunter2@db", "***@db"),
        ("EMAIL__FROM", "ann@example.org, bob@example.org", "ann@example.org, bob@example.org"),
    ],
)
def test_a_value_that_is_refused_is_shown_on_one_line_without_who_logs_in(
    environment, name, value, shown
):
    environment.setenv(name, value)
    environment.setenv("AUTH__OIDC__AUDIENCE", "procession")

    (fault,) = faults("api")

    assert fault.startswith(f"{name}={shown}: takes ")


def test_every_fault_has_its_line(environment):
    environment.setenv("PORT", "http")
    environment.setenv("LOG__LEVEL", "loud")

    assert [fault.partition("=")[0] for fault in faults()] == ["PORT", "LOG__LEVEL"]


def test_values_are_read_as_what_they_are(environment):
    environment.setenv("WORKFLOWS__RUNNER_ENABLED", "No")
    environment.setenv("WORKFLOWS__OUTBOUND__MAX_DELAY_SECONDS", "2.5")
    environment.setenv("OUTBOUND__ALLOWED_NETWORKS", "127.0.0.0/8, ::1/128")
    environment.setenv("CONTROL_TOKEN", f"{'a' * 32},{'b' * 32}")
    environment.setenv("SECRETS__KEYS", f"new:{KEY},old:{KEY}")

    settings = read("worker")

    assert settings.workflows__runner_enabled is False
    assert settings.workflows__outbound__max_delay_seconds == 2.5
    assert [str(one) for one in settings.outbound__allowed_networks] == ["127.0.0.0/8", "::1/128"]
    assert settings.control_token == ("a" * 32, "b" * 32)
    assert list(settings.secrets__keys) == ["new", "old"]


def test_secrets_are_left_out_of_the_text_of_the_settings(environment):
    environment.setenv("CONTROL_TOKEN", "hunter2" * 6)

    assert "hunter2" not in repr(read("api"))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (
            {"WORKFLOWS__RUNNER_CONCURRENCY": "11"},
            ["DATABASE__POOL_MAX=12", "13", "WORKFLOWS__RUNNER_CONCURRENCY (11)"],
        ),
        ({"DATABASE__POOL_MIN": "13"}, ["DATABASE__POOL_MIN=13", "DATABASE__POOL_MAX (12)"]),
        (
            {"WORKFLOWS__OUTBOUND__BASE_DELAY_MILLISECONDS": "2001"},
            ["BASE_DELAY_MILLISECONDS=2001", "MAX_DELAY_SECONDS (2 s)"],
        ),
        (
            {"WORKFLOWS__OUTBOUND__BREAKER_FAILURES": "11"},
            ["BREAKER_WINDOW=10", "BREAKER_FAILURES (11)"],
        ),
        (
            {"WORKFLOWS__OUTBOUND__ATTEMPT_TIMEOUT_SECONDS": "60"},
            ["WORKFLOWS__LEASE_SECONDS=300", "508 s", "ATTEMPT_TIMEOUT_SECONDS"],
        ),
        ({"WORKFLOWS__LEASE_SECONDS": "60"}, ["WORKFLOWS__LEASE_SECONDS=60", "48 s", "208 s"]),
        ({"JOBS__LEASE_SECONDS": "60"}, ["JOBS__LEASE_SECONDS=60", "48 s"]),
    ],
)
def test_a_rule_between_variables_is_kept(environment, values, named):
    for name, value in values.items():
        environment.setenv(name, value)

    (fault,) = faults()

    assert [part for part in named if part not in fault] == []


def test_a_process_is_held_to_the_rules_that_concern_it(environment):
    environment.setenv("WORKFLOWS__RUNNER_CONCURRENCY", "11")
    environment.setenv("WORKFLOWS__OUTBOUND__BREAKER_FAILURES", "11")

    assert len(faults("worker")) == 2
    assert len(faults("api")) == 1
    assert read("migrate")


def test_no_breakers_need_no_window(environment):
    environment.setenv("WORKFLOWS__OUTBOUND__BREAKER_FAILURES", "0")
    environment.setenv("WORKFLOWS__OUTBOUND__BREAKER_WINDOW", "1")

    assert read("worker")


def test_an_unknown_variable_is_told_with_the_nearest_name():
    names = ["DATABASE__POOLMAX", "DATABASE__POOL_MIN", "PATH", "LOG_LEVEL"]

    assert unknown(Settings, names) == [
        "DATABASE__POOLMAX is no setting of this release; DATABASE__POOL_MAX is the nearest name"
    ]


def test_what_is_given_takes_the_place_of_the_environment(environment):
    environment.setenv("PORT", "70000")

    assert read("up", PORT="8080").port == 8080


def test_faults_end_the_process_with_status_two(environment, capsys):
    environment.setenv("PORT", "http")

    with pytest.raises(SystemExit) as ended:
        read_or_exit("api")

    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "procession api cannot start:\n  PORT=http: takes an integer from 1 to 65535\n"
    )


ISSUER = "https://login.example.com/realms/main"


@pytest.mark.parametrize(
    "value", [ISSUER, "https://login.example.com/", "https://[2001:db8::1]:8443"]
)
def test_an_issuer_is_kept_to_the_letter(environment, value):
    environment.setenv("AUTH__OIDC__ISSUER", value)
    environment.setenv("AUTH__OIDC__AUDIENCE", "procession")

    settings = read("api")

    assert settings.auth__oidc__issuer == value
    assert settings.auth__oidc__tenant_claim == "tenant"
    assert settings.auth__oidc__role_claim == "roles"


@pytest.mark.parametrize(
    "value",
    [
        "http://login.example.com",
        "HTTPS://login.example.com",
        "login.example.com",
        "https://",
        f"{ISSUER}?a=b",
        f"{ISSUER}?",
        f"{ISSUER}#",
        f"{ISSUER} ",
    ],
)
def test_an_issuer_is_an_absolute_https_address(environment, value):
    environment.setenv("AUTH__OIDC__ISSUER", value)
    environment.setenv("AUTH__OIDC__AUDIENCE", "procession")

    (fault,) = faults("api")

    assert fault.startswith(f"AUTH__OIDC__ISSUER={value}: takes an absolute https address")


@pytest.mark.parametrize("process", ["api", "up"])
def test_an_issuer_needs_an_audience(environment, process):
    environment.setenv("AUTH__OIDC__ISSUER", ISSUER)

    (fault,) = faults(process)

    assert fault.startswith("AUTH__OIDC__AUDIENCE is not set: takes ")


def test_a_claim_is_named_on_one_line(environment):
    environment.setenv("AUTH__OIDC__ROLE_CLAIM", "https://a.example/roles")
    assert read("api").auth__oidc__role_claim == "https://a.example/roles"

    environment.setenv("AUTH__OIDC__ROLE_CLAIM", "a\nb")
    assert faults("api") == ["AUTH__OIDC__ROLE_CLAIM=a\\nb: takes text on one line"]
