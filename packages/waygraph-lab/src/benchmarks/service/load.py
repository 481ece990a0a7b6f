"""A load generator in a process of its own: `python -m benchmarks.service.load`, a job in, a tally out, both JSON.

Closed loop: each of so many connections sends its next request when the last one is answered. Requests are made
before the clock starts and answers are hardly looked at, since the generator shares the processors with the server.
"""

import asyncio
import json
import resource
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
LAST_ANSWERS_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`bodies` are posted to `path` once each, in turn. Nothing of the first `warm_up_s` counts."""

    port: int
    path: str
    headers: Mapping[str, str]
    bodies: Sequence[str]
    clients: int
    warm_up_s: float
    seconds: float


@dataclass(slots=True, kw_only=True)
class Tally:
    """Of the answers that ended in the measured time."""

    seconds: float = 0.0
    latency_ms: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Connections that ended before their answer."""
    used_up: bool = False
    """The bodies were not enough."""
    cpu_s: float = 0.0
    """Processor time of this process from first request to last answer."""

    @property
    def errors(self) -> int:
        return self.lost + sum(count for status, count in self.statuses.items() if status != "200")

    @property
    def a_second(self) -> float:
        """Answers a second, errors not counted."""
        return self.statuses.get("200", 0) / self.seconds


class Load:
    """What the connections share: the requests, the deadline, the tally."""

    def __init__(self, job: Job) -> None:
        self.requests = deque(request_bytes(job, body) for body in job.bodies)
        self.tally = Tally(seconds=job.seconds)
        self.statuses: Counter[bytes] = Counter()
        self.starts_s = time.perf_counter() + job.warm_up_s
        self.ends_s = self.starts_s + job.seconds

    def next_request(self, now: float) -> bytes | None:
        """None: this connection is done."""
        if now >= self.ends_s:
            return None
        if not self.requests:
            self.tally.used_up = True
            return None
        return self.requests.popleft()

    def count_answer(self, status: bytes, began: float, now: float) -> None:
        if not self.starts_s <= now < self.ends_s:
            return
        self.statuses[status] += 1
        self.tally.latency_ms.append((now - began) * 1000)


class Connection(asyncio.Protocol):
    """One client: one request at a time, over one connection."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._held = b""
        self._whole = 0
        """Bytes of the answer that is awaited, once its head was read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send(time.perf_counter())

    def data_received(self, data: bytes) -> None:
        held = self._held = self._held + data if self._held else data
        if not self._whole and (head := held.find(HEAD_END)) >= 0:
            self._whole = head + len(HEAD_END) + content_length(held[:head])
        if self._whole and len(held) >= self._whole:
            now = time.perf_counter()
            self.load.count_answer(held[9:12], self._began, now)
            self._held, self._whole = b"", 0
            self._send(now)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if not self.done.done():
            self.load.tally.lost += 1
            self.done.set_result(False)

    def _send(self, now: float) -> None:
        request = self.load.next_request(now)
        if request is None:
            self.done.set_result(True)
            self._transport.close()
            return
        self._began = now
        self._transport.write(request)


def request_bytes(job: Job, body: str) -> bytes:
    content = body.encode()
    head = [
        f"POST {job.path} HTTP/1.1",
        f"Host: 127.0.0.1:{job.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in job.headers.items()),
    ]
    return "\r\n".join(head).encode() + HEAD_END + content


def content_length(head: bytes) -> int:
    """Raises ValueError for an answer without one: what is measured here sends whole answers."""
    lowered = head.lower()
    at = lowered.find(LENGTH)
    if at < 0:
        raise ValueError(f"an answer without content-length: {head[:200]!r}")
    return int(lowered[at + len(LENGTH) :].split(b"\r\n", 1)[0])


async def generate(job: Job) -> Tally:
    """A connection that is lost is opened again until the time is over."""
    load = Load(job)
    used = cpu_s()
    limit_s = job.warm_up_s + job.seconds + LAST_ANSWERS_S
    await asyncio.wait_for(asyncio.gather(*(_client(load, job.port) for _ in range(job.clients))), limit_s)
    load.tally.cpu_s = cpu_s() - used
    load.tally.statuses = {status.decode(): count for status, count in load.statuses.items()}
    return load.tally


async def _client(load: Load, port: int) -> None:
    loop = asyncio.get_running_loop()
    while time.perf_counter() < load.ends_s:
        _, connection = await loop.create_connection(lambda: Connection(load), "127.0.0.1", port)
        if await connection.done:
            return


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    job = Job(**json.load(sys.stdin))
    json.dump(asdict(asyncio.run(generate(job))), sys.stdout)


if __name__ == "__main__":
    main()
