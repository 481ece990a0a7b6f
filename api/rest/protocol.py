"""What is no HTTP is refused in the shape of all problems: it never reaches the application."""

import json
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from waygraph.api.rest.limits import HEADERS, NOT_KEPT
from waygraph.registry.wire.problems import MEDIA_TYPE, problem

ENDLESS = "waygraph.endless"
"""In the scope of a request whose answer ends with the connection: nothing is lost when that is closed."""


class Protocol(HttpToolsProtocol):
    def shutdown(self) -> None:
        """The service is told to stop: what was begun ends, and what has no end is ended."""
        if self.cycle is not None and self.cycle.scope.get(ENDLESS):
            self.transport.close()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        request_id = uuid4().hex
        found = problem(400, "bad-request", msg, f"urn:waygraph:request:{request_id}")
        content = json.dumps(found).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            *HEADERS,
            NOT_KEPT,
            (b"x-request-id", request_id.encode()),
        ]
        lines = (b"%s: %s\r\n" % header for header in headers)
        self.transport.write(b"".join((b"HTTP/1.1 400 Bad Request\r\n", *lines, b"\r\n", content)))
        self.transport.close()
