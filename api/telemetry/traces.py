"""Traces by OpenTelemetry, if the standard variables ask for them: a span a request, and the core's spans inside it.

Which variables: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or OTEL_TRACES_EXPORTER=otlp or
console. The SDK reads the others itself (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS …).
No global provider is set, so nothing else in the process begins to send.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TextIO

from waygraph.registry.model.errors import InvalidSetting, MissingExtra
from waygraph.registry.model.tracing import Attribute, McpOperation, Name, Side, set_tracer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTER = "OTEL_TRACES_EXPORTER"
_OTLP, _CONSOLE, _NONE = "otlp", "console", "none"
_SERVICE = "waygraph"
_MOST_PARENT_CHARS = 1_024
"""Of each field that names the caller's span."""


def open_traces(environ: Mapping[str, str], console: TextIO) -> "Traces | None":
    """Traces as the variables ask for them, None if they do not. `console` takes what the exporter `console` writes.

    `environ` is the process's own, which the SDK reads as well. Raises InvalidSetting, MissingExtra.
    """
    if (exporter := _exporter(environ)) == _NONE:
        return None
    try:
        return Traces(_provider(exporter, environ, console))
    except ImportError as exc:
        raise MissingExtra("tracing", package="opentelemetry-sdk", extra="serve") from exc


def _exporter(environ: Mapping[str, str]) -> str:
    """Which exporter is asked for. Raises InvalidSetting."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return _NONE
    default = _OTLP if any(environ.get(name) for name in ENDPOINTS) else _NONE
    exporter = (environ.get(EXPORTER) or default).strip().lower()
    if exporter not in (_OTLP, _CONSOLE, _NONE):
        raise InvalidSetting(f"{EXPORTER}={exporter!r}: expected {_OTLP}, {_CONSOLE} or {_NONE}")
    return exporter


def _provider(exporter: str, environ: Mapping[str, str], console: TextIO) -> "TracerProvider":
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import TracerProvider

    # What the user states in OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES overrules this.
    base = Resource.create({SERVICE_VERSION: version("waygraph")})
    has_no_name = str(base.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service")
    resource = base.merge(Resource({SERVICE_NAME: _SERVICE})) if has_no_name else base
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(_processor(exporter, environ, console))
    return provider


def _processor(exporter: str, environ: Mapping[str, str], console: TextIO) -> "SpanProcessor":
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    if exporter == _CONSOLE:
        one_line = ConsoleSpanExporter(out=console, formatter=lambda span: span.to_json(indent=None) + "\n")
        return SimpleSpanProcessor(one_line)
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise InvalidSetting(f"{PROTOCOLS[1]}={protocol!r}: traces are sent by http/protobuf")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return BatchSpanProcessor(OTLPSpanExporter())


class Traces:
    """Makes the spans of requests, and is the core's tracer until it is closed."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer: Tracer = provider.get_tracer(_SERVICE, version("waygraph"))
        self._propagator = TraceContextTextMapPropagator()
        set_tracer(self)

    def _begin(self, name: str, **options: Any) -> "AbstractContextManager[Span]":
        """An exception is told by its type alone (`_fail`): its text may hold anything."""
        return self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False, **options
        )

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Attribute]) -> Iterator["Span"]:
        """A span below the present one. Of an error it tells the type, not the text, in which anything may stand."""
        with self._begin(name, attributes=attributes) as span:
            try:
                yield span
            except BaseException as exc:
                _fail(span, type(exc).__name__)
                raise

    @contextmanager
    def request(self, method: str, path: str, parent: str, state: str) -> Iterator["RequestSpan"]:
        """The span of a request; `parent` and `state` are its headers `traceparent` and `tracestate`, "" if absent."""
        from opentelemetry.trace import SpanKind

        carrier = {"traceparent": parent, "tracestate": state} if parent else {}
        context, attributes = self._propagator.extract(carrier), {"http.request.method": method, "url.path": path}
        with self._begin(method, context=context, kind=SpanKind.SERVER, attributes=attributes) as span:
            yield RequestSpan(span)

    @contextmanager
    def mcp_span(self, side: Side, operation: McpOperation, meta: Mapping[str, Any]) -> Iterator[None]:
        """Below the span that `meta` names, linked to the present one then; else below the present one."""
        from opentelemetry.context import get_current
        from opentelemetry.trace import Link, SpanKind, get_current_span

        sender = {name: text for name in ("traceparent", "tracestate") if isinstance(text := meta.get(name), str)}
        is_short = all(len(text) <= _MOST_PARENT_CHARS for text in sender.values())
        context = self._propagator.extract(sender if is_short else {}, get_current())
        present, parent = get_current_span().get_span_context(), get_current_span(context).get_span_context()
        kind = SpanKind.CLIENT if side == "client" else SpanKind.SERVER
        links = [Link(present)] if present.is_valid and present != parent else None
        attributes = operation.attributes
        with self._begin(operation.span_name, context=context, kind=kind, attributes=attributes, links=links) as span:
            try:
                yield
            finally:
                span.update_name(operation.span_name)
                span.set_attributes(operation.attributes)
                if error_type := operation.attributes.get(Name.ERROR):
                    _fail(span, str(error_type))

    def close(self) -> None:
        """Sends what is not sent yet, within the SDK's own limit of time."""
        set_tracer(None)
        self._provider.shutdown()


class RequestSpan:
    """The span of one request."""

    def __init__(self, span: "Span") -> None:
        self._span = span

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return format(self._span.get_span_context().trace_id, "032x")

    def end_span(self, method: str, route: str, status: int) -> None:
        """Names the span for the route's template; a fault of the service's is an error, one of the caller's is not."""
        self._span.update_name(f"{method} {route}")
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500:
            _fail(self._span, str(status))


def _fail(span: "Span", error_type: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR)
