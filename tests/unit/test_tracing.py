"""Where spans go: nowhere, unless the environment says so and the extra is there."""

import subprocess
import sys

import pytest

from procession.app import tracing
from procession.outbound import spans

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OF_TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
AT = "http://127.0.0.1:4318"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (ENDPOINT, OF_TRACES, "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("variables", "by"),
    [
        ({}, None),
        ({ENDPOINT: ""}, None),
        ({ENDPOINT: AT}, ENDPOINT),
        ({OF_TRACES: AT}, OF_TRACES),
        ({ENDPOINT: AT, "OTEL_SDK_DISABLED": "True"}, None),
        ({ENDPOINT: AT, "OTEL_SDK_DISABLED": "false"}, ENDPOINT),
        ({ENDPOINT: AT, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({ENDPOINT: AT, "OTEL_TRACES_EXPORTER": "otlp"}, ENDPOINT),
        ({"OTEL_SERVICE_NAME": "procession"}, None),
    ],
)
def test_the_standard_variables_say_whether_and_where(environment, variables, by):
    for name, value in variables.items():
        environment.setenv(name, value)

    assert tracing.endpoint() == by


def test_where_nothing_is_said_nothing_is_traced():
    with tracing.traced("worker"), spans.span("attempt") as one:
        assert (one.is_recording(), spans.here(), spans.trace_id()) == (False, None, None)
        assert spans.here("00-ab-cd-01") == "00-ab-cd-01"


def test_without_the_extra_one_line_says_what_is_missing(environment, caplog):
    environment.setenv(ENDPOINT, AT)
    environment.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with tracing.traced("worker"), spans.span("attempt") as one:
        assert not one.is_recording()

    (line,) = caplog.messages
    assert line == (
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, and no traces are sent: they need the extra "
        "`tracing` (pip install 'procession[tracing]')"
    )


def test_who_wants_no_traces_does_not_load_what_sends_them():
    code = """
import sys
import procession.app.worker, procession.app.api
late = ("opentelemetry.sdk", "opentelemetry.exporter")
print([one for one in sys.modules if one.startswith(late)])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout == "[]\n"


def test_the_block_ends_though_nobody_takes_its_spans(environment, monkeypatch):
    environment.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setattr(tracing, "PATIENCE", 0.1)

    with tracing.traced("worker"), spans.span("attempt") as one:
        assert one.is_recording()

    assert spans.here() is None


def test_an_error_is_known_by_its_type_only(traced):
    with pytest.raises(ValueError, match="hunter2"), spans.span("attempt"):
        raise ValueError("hunter2")

    (one,) = traced.all
    assert one.attributes["error.type"] == "ValueError"
    assert one.status.status_code.name == "ERROR"
    assert "hunter2" not in traced.text
