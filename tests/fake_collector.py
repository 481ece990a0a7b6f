"""A collector of traces on a free loopback port: OTLP over HTTP with protobuf, as the specification has it."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.http_doubles import Quiet, serve_in_thread


@dataclass(frozen=True)
class Span:
    """What was received of one; ids are hexadecimal."""

    name: str
    kind: int
    trace_id: str
    id: str
    parent_id: str
    status: int
    attributes: dict[str, str | int]
    links: tuple[str, ...] = ()
    """Of the spans that it is linked to, their ids."""


@dataclass
class Collector:
    url: str = ""
    spans: list[Span] = field(default_factory=list)
    resources: list[dict[str, str | int]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def named(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_attributes(group.resource.attributes))
            for scope in group.scope_spans:
                self.spans.extend(map(_span, scope.spans))


@contextmanager
def fake_collector() -> Iterator[Collector]:
    collector = Collector()
    with ThreadingHTTPServer(("127.0.0.1", 0), _answering_for(collector)) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        with serve_in_thread(server):
            yield collector


def _answering_for(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Endpoint(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            known = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            if known:
                collector.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    return Endpoint


def _span(sent: object) -> Span:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent

    assert isinstance(sent, Sent)
    return Span(
        name=sent.name,
        kind=sent.kind,
        trace_id=sent.trace_id.hex(),
        id=sent.span_id.hex(),
        parent_id=sent.parent_span_id.hex(),
        status=sent.status.code,
        attributes=_attributes(sent.attributes),
        links=tuple(link.span_id.hex() for link in sent.links),
    )


def _attributes(pairs: object) -> dict[str, str | int]:
    """Texts and whole numbers, which is all that we send."""
    told: dict[str, str | int] = {}
    for pair in pairs:  # type: ignore[attr-defined]
        told[pair.key] = pair.value.string_value or pair.value.int_value
    return told
