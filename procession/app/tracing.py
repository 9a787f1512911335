"""Where spans go: to the collector that the standard variables of OpenTelemetry name, if they do.

What names none needs nothing: neither the SDK, which the extra `tracing` brings, nor a thought.
"""

import logging
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from opentelemetry.trace import Tracer

from procession.outbound import spans
from procession.queue.types import Claimed, Happened

log = logging.getLogger(__name__)

PATIENCE = 2.0  # seconds at the end, for a collector that does not answer
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
MISSING = (
    "%s is set, and no traces are sent: they need the extra `tracing` "
    "(pip install 'procession[tracing]')"
)


def endpoint() -> str | None:
    """The variable that says where traces go; None where nobody wants any."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp").lower() == "none":
        return None
    return next((one for one in ENDPOINTS if os.environ.get(one)), None)


@contextmanager
def traced(process: str) -> Generator[None]:
    """Send the spans of the block, and what is left of them at its end."""
    name = endpoint()
    if name is None:
        yield
        return
    try:
        tracer, end = _to_collector(f"procession-{process}")
    except ImportError:
        log.warning(MISSING, name)
        yield
        return
    before = spans.collect(tracer)
    try:
        yield
    finally:
        spans.collect(before)
        last = threading.Thread(target=end, name="traces", daemon=True)
        last.start()
        last.join(PATIENCE)


def _to_collector(service: str) -> tuple[Tracer, Callable[[], None]]:
    """A tracer that sends in the background, and how it is ended. Raises ImportError."""
    # late, and only here: they take half a second, and are not installed for most
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    from procession.app.collector import Exporter, hush  # noqa: PLC0415

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {"service.name": service})
    hush()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Exporter()))
    return provider.get_tracer("procession"), provider.shutdown


def heard(happened: Happened) -> None:
    """A span for each run of a claim, beside that of the attempt which follows."""
    if isinstance(happened, Claimed):
        for one in happened.claims:
            about = {
                "procession.tenant": one.tenant.slug,
                "procession.run": str(one.id),
                "procession.action": one.ordinal,
                "procession.action_type": one.type,
            }
            spans.after("claim", happened.began, one.traceparent, about)
