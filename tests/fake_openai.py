"""An endpoint on a free loopback port, as OpenAI's: real sockets, vectors of a hash of the text, answers as told."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_doubles import Quiet, serving

KEY = "sk-right-1234567890"
NATIVE_DIMENSION = 48
USAGE = {"prompt_tokens": 30, "completion_tokens": 4}
"""What each chat is said to cost."""


def in_order(*places: int) -> Callable[[dict[str, Any]], str]:
    """An answer to a request for an order of candidates: their ids at these places, from 1."""

    def answer(request: dict[str, Any]) -> str:
        candidates = json.loads(request["messages"][1]["content"])["candidates"]
        return json.dumps([candidates[place - 1]["id"] for place in places])

    return answer


@dataclass
class FakeOpenAI:
    """How the endpoint behaves, and what it was asked. Change the fields while it runs."""

    url: str = ""
    overloads: int = 0
    """So many requests are answered by `overload_status` first."""
    overload_status: int = 429
    retry_after: str | None = None
    broken_connections: int = 0
    dimension: int | None = None
    """Other than asked: the wrong one."""
    hang_s: float = 0.0
    trickles: bool = False
    """Sends a byte of the body at a time."""
    garbage: bytes | None = None
    encoding: str = ""
    """Said of every answer's body, whatever it is."""
    refuses: str = ""
    """A field of the request that is refused by name."""
    reverse: bool = False
    """Answer in another order than asked; `index` still tells."""
    drop_last: bool = False
    answers: list[str] = field(default_factory=list)
    """What chats are answered with, in turn; the last one stays."""
    answer: Callable[[dict[str, Any]], str] | None = None
    """What each chat is answered with, in place of `answers`."""
    thought_tokens: int = 0
    """So many are spent on thoughts before each answer: a limit that is no higher cuts it off."""
    thought_field: str = ""
    """Of the message, that thoughts are in; empty: in its text."""
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        """By which it is found."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": KEY}

    @property
    def batches(self) -> list[list[str]]:
        return [request["input"] for request in self.requests]


def vector_of(text: str, dimension: int) -> list[float]:
    """Numbers in [-1, 1], the same for the same text; not of length 1."""
    digest = hashlib.shake_256(text.encode()).digest(dimension)
    return [byte / 127.5 - 1 for byte in digest]


@contextmanager
def fake_openai() -> Iterator[FakeOpenAI]:
    fake = FakeOpenAI()
    with serving(_answering_for(fake)) as address:
        fake.url = f"{address}/v1"
        yield fake


def _answering_for(fake: FakeOpenAI) -> type[BaseHTTPRequestHandler]:
    class Endpoint(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.requests.append(request)
            time.sleep(fake.hang_s)
            if fake.broken_connections > 0:
                fake.broken_connections -= 1
                self.close_connection = True
                return
            status, body = _answer(fake, self.path, self.headers.get("Authorization", ""), request)
            self._send(status, body)

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if fake.retry_after is not None and status == fake.overload_status:
                self.send_header("Retry-After", fake.retry_after)
            if fake.encoding:
                self.send_header("Content-Encoding", fake.encoding)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # whoever asked has had enough
                for at in range(0, len(body), 1 if fake.trickles else max(1, len(body))):
                    self.wfile.write(body[at : at + 1] if fake.trickles else body)
                    time.sleep(0.01 if fake.trickles else 0)

    return Endpoint


def _answer(fake: FakeOpenAI, path: str, authorization: str, request: dict[str, Any]) -> tuple[int, bytes]:
    if path not in {"/v1/embeddings", "/v1/chat/completions"}:
        return 404, b'{"error": {"message": "no such path"}}'
    if authorization != f"Bearer {KEY}":
        return 401, json.dumps({"error": {"message": f"Incorrect API key: {authorization}"}}).encode()
    if fake.overloads > 0:
        fake.overloads -= 1
        return fake.overload_status, b'{"error": {"message": "slow down"}}'
    if fake.refuses in request:
        value = str(request[fake.refuses])[:50]
        return 400, json.dumps({"error": {"message": f"Unsupported value: '{fake.refuses}' {value}"}}).encode()
    if fake.garbage is not None:
        return 200, fake.garbage
    return 200, _embeddings(fake, request) if path == "/v1/embeddings" else _completion(fake, request)


def _completion(fake: FakeOpenAI, request: dict[str, Any]) -> bytes:
    turn = fake.answer or (lambda _: fake.answers.pop(0) if len(fake.answers) > 1 else fake.answers[0])
    text = turn(request)
    is_cut = 0 < request.get("max_tokens", fake.thought_tokens + 1) <= fake.thought_tokens
    message = {"role": "assistant", "content": "" if is_cut else text}
    if fake.thought_tokens and fake.thought_field:
        message[fake.thought_field] = "Let me see."
    elif fake.thought_tokens:
        message["content"] = "<think>Let me see." + ("" if is_cut else f'{{"order": []}}?</think>\n\n{text}')
    choices = [{"index": 0, "message": message, "finish_reason": "length" if is_cut else "stop"}]
    return json.dumps({"object": "chat.completion", "choices": choices, "usage": USAGE}).encode()


def _embeddings(fake: FakeOpenAI, request: dict[str, Any]) -> bytes:
    dimension = fake.dimension or request.get("dimensions") or NATIVE_DIMENSION
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, dimension)}
        for index, text in enumerate(request["input"])
    ]
    data = data[:-1] if fake.drop_last else data
    return json.dumps({"object": "list", "data": data[::-1] if fake.reverse else data}).encode()
