"""Single requests to the service, over one connection."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

TIMEOUT_S = 300.0


class CallFailed(Exception):
    """An answer that is not a success."""


@dataclass(slots=True)
class Calls:
    port: int
    headers: Mapping[str, str]

    def synchronise(self, source: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """The sync's report. Raises CallFailed."""
        return self.post("/v1/manifests", manifest(source, document))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **self.headers})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise CallFailed(f"POST {path} was answered with {answer.status}: {content[:500]!r}")
        read: dict[str, Any] = json.loads(content)
        return read


def manifest(source: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """What POST /v1/manifests takes: a catalogue, under the name of a source."""
    return {"source": source, "manifest": document}
