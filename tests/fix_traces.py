"""The spans of a test, kept where it can look at them."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from procession.outbound import spans


class Traced:
    """What was traced."""

    def __init__(self, exporter):
        self._exporter = exporter

    @property
    def all(self):
        return self._exporter.get_finished_spans()

    def one(self, name):
        (found,) = [one for one in self.all if one.name == name]
        return found

    @property
    def text(self):
        """All that the spans hold."""
        return "\n".join(one.to_json() for one in self.all)


@pytest.fixture
def traced():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    before = spans.collect(provider.get_tracer("tests"))
    yield Traced(exporter)
    spans.collect(before)
    provider.shutdown()
