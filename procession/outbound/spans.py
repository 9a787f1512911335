"""Spans: what took how long, and because of what, for whoever collects traces.

Off until somebody says where they go; a span then costs nothing. None holds a secret: of an address
the host, of an error its type, and of a run its ids.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, Tracer, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = [
    "NONE",
    "Attributes",
    "Span",
    "SpanKind",
    "StatusCode",
    "after",
    "collect",
    "here",
    "span",
    "trace_id",
]

Attributes = Mapping[str, str | int]

_w3c = TraceContextTextMapPropagator()
_tracer: Tracer | None = None


def collect(tracer: Tracer | None) -> Tracer | None:
    """Give the spans of this process to the tracer, or to nobody; whose they were before."""
    global _tracer  # one for a process, as its log is
    before, _tracer = _tracer, tracer
    return before


def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    *,
    parent: str | None = None,
    attributes: Attributes | None = None,
) -> AbstractContextManager[Span]:
    """The block as a span: in that of its caller, or in the one that the traceparent names."""
    return NONE if _tracer is None else _begun(_tracer, name, kind, _context(parent), attributes)


NONE = nullcontext(INVALID_SPAN)


@contextmanager
def _begun(
    tracer: Tracer, name: str, kind: SpanKind, context: Context | None, about: Attributes | None
) -> Generator[Span]:
    with tracer.start_as_current_span(
        name,
        context,
        kind,
        dict(about or {}),
        record_exception=False,  # its message may hold anything
        set_status_on_exception=False,
    ) as one:
        try:
            yield one
        except BaseException as error:
            one.set_attribute("error.type", type(error).__name__)
            one.set_status(StatusCode.ERROR)
            raise


def after(name: str, began: int, parent: str | None, attributes: Attributes) -> None:
    """A span of what has just ended, begun at this time of Unix in nanoseconds."""
    if _tracer is not None:
        _tracer.start_span(
            name, _context(parent), attributes=dict(attributes), start_time=began
        ).end()


def here(otherwise: str | None = None) -> str | None:
    """The traceparent of what is done now, or else the one given."""
    if _tracer is None:
        return otherwise
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    return carrier.get("traceparent", otherwise)


def trace_id() -> str | None:
    """The trace that what is done now belongs to, as the logs name it."""
    if _tracer is None:
        return None
    found = trace.get_current_span().get_span_context()
    return format_trace_id(found.trace_id) if found.is_valid else None


def _context(parent: str | None) -> Context | None:
    return None if parent is None else _w3c.extract({"traceparent": parent})
