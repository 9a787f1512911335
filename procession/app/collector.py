"""Sending spans to a collector, and saying seldom that it does not take them.

Imported by who sends some only: it needs the SDK, which takes half a second.
"""

import logging
from collections.abc import Sequence
from time import monotonic

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from typing_extensions import override

log = logging.getLogger(__name__)

WARNED_EVERY = 300.0  # seconds, while it goes on failing
# They tell of each try of each batch.
HUSHED = (
    "opentelemetry.exporter.otlp",
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.sdk.trace.export",
    "urllib3",
)


class Exporter(OTLPSpanExporter):
    """To where the standard variables say, over HTTP."""

    _warned_at: float | None = None  # None: the last batch arrived

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            self._warned_at = None
        else:
            self._warn()
        return result

    def _warn(self) -> None:
        now = monotonic()
        if self._warned_at is None or now - self._warned_at >= WARNED_EVERY:
            self._warned_at = now
            log.warning("The collector does not take traces: they are lost until it does")


def hush() -> None:
    """Leave it to the line above."""
    for name in HUSHED:
        logging.getLogger(name).setLevel(logging.CRITICAL)
