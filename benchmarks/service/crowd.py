"""Clients of all kinds: they route, list, write, make and revoke keys, type Cypher, and send rubbish."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks.service.arena import Queries
from benchmarks.service.calls import manifest
from benchmarks.service.load import HEAD_END, content_length
from benchmarks.service.syncing import edition
from waygraph.registry.access.api_keys import KeyFile

type Answer = tuple[int, dict[str, Any]]
MOST_SURPRISES = 20
IDLE_S = 15.0
"""A connection that was idle for longer is not used again: the server may be closing it."""
OWN, STRANGE = "127.0.0.1", "127.0.0.2"
"""Whoever shows no key that is known calls from another address: failures are counted by address."""
SMALL_SOURCE = 21
"""Tools of a source that comes and goes."""
CYPHER = (
    "MATCH (a:Agent)-[:OWNS]->(t:Tool) RETURN a.id AS agent, count(t) AS tools ORDER BY tools DESC, agent LIMIT 5",
    "MATCH (t:Tool) RETURN count(t) AS tools",
)
REFUSED_CYPHER = ("MATCH (a:Agent) DETACH DELETE a", "LOAD CSV FROM 'file:///etc/passwd' AS row RETURN row")
RUBBISH = (b"", b"{", b"[]", b'"text"', b'{"text": 7}', b'{"limit": 5}', b'{"text": "a", "limit": -1}', b"\xff\xfe")
"""Bodies of a route that are none."""


@dataclass(slots=True)
class Outcomes:
    """`surprises` holds the first few answers whose status was not the one that was due."""

    requests: int = 0
    broken: int = 0
    """Answers 5xx (but 503 where the service says that it is busy) and lost connections."""
    busy: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)


class Crowd:
    """Each client asks one thing after the other, chosen by chance; what is due is known beforehand."""

    def __init__(
        self, port: int, keys: KeyFile, headers: Mapping[str, str], queries: Queries, chance: random.Random
    ) -> None:
        self.outcomes = Outcomes()
        self._port, self._keys, self._headers = port, keys, dict(headers)
        self._queries, self._chance, self._numbers = queries, chance, count()
        self._kinds: Mapping[Callable[[Wire], Awaitable[None]], int] = {
            self._route: 50,
            self._batch: 3,
            self._find: 12,
            self._list: 10,
            self._page: 8,
            self._cypher: 2,
            self._refused_cypher: 2,
            self._rubbish: 6,
            self._unknown: 4,
            self._key: 2,
            self._stranger: 3,
            self._write: 1,
            self._set: 1,
        }
        self._agents: list[str] = []
        self._writing = asyncio.Lock()

    async def client(self, ends_s: float, pause_s: float) -> None:
        wires = {address: Wire(self._port, self.outcomes, address) for address in (OWN, STRANGE)}
        kinds, weights = list(self._kinds), list(self._kinds.values())
        while time.perf_counter() < ends_s:
            kind = self._chance.choices(kinds, weights)[0]
            await kind(wires[STRANGE if kind == self._stranger else OWN])
            await asyncio.sleep(self._chance.expovariate(1 / pause_s))
        for wire in wires.values():
            await wire.close()

    def _query(self) -> str:
        return self._queries.take(1)[0]

    # -- what is answered --------------------------------------------------------------------------

    async def _route(self, wire: "Wire") -> None:
        body = {"text": self._query(), "limit": self._chance.randint(1, 20), "explain": self._chance.random() < 0.1}
        await self._asked(wire, "POST", "/v1/route", body, due=200)

    async def _batch(self, wire: "Wire") -> None:
        body = {"requests": [{"text": self._query()} for _ in range(4)]}
        await self._asked(wire, "POST", "/v1/route/batch", body, due=200)

    async def _find(self, wire: "Wire") -> None:
        await self._asked(wire, "POST", "/v1/tools/search", {"text": self._query()}, due=200)

    async def _list(self, wire: "Wire") -> None:
        _, answer = await self._asked(wire, "GET", "/v1/agents?limit=50", None, due=200)
        self._agents = [agent["id"] for agent in answer.get("agents", ())] or self._agents
        if cursor := answer.get("following"):
            await self._asked(wire, "GET", f"/v1/agents?limit=50&cursor={cursor}", None, due=200)

    async def _page(self, wire: "Wire") -> None:
        if self._agents:
            agent = self._chance.choice(self._agents)
            await self._asked(wire, "GET", f"/v1/agents/{agent}", None, due=(200, 404))
            await self._asked(wire, "GET", f"/v1/agents/{agent}/tools", None, due=(200, 404))

    async def _cypher(self, wire: "Wire") -> None:
        body = {"statement": self._chance.choice(CYPHER)}
        await self._asked(wire, "POST", "/v1/cypher", body, due=(200, 503))

    # -- what is refused ---------------------------------------------------------------------------

    async def _refused_cypher(self, wire: "Wire") -> None:
        body = {"statement": self._chance.choice(REFUSED_CYPHER)}
        await self._asked(wire, "POST", "/v1/cypher", body, due=(400, 422, 503))

    async def _rubbish(self, wire: "Wire") -> None:
        await self._sent(wire, "POST", "/v1/route", self._chance.choice(RUBBISH), self._headers, due=(400, 422))

    async def _unknown(self, wire: "Wire") -> None:
        path = self._chance.choice(("/v1/agents/nobody-knows-it", "/v1/nothing", "/v1/tools/nobody/nothing"))
        await self._asked(wire, "GET", path, None, due=404)

    async def _stranger(self, wire: "Wire") -> None:
        headers = {"Authorization": f"Bearer wg_{self._chance.randbytes(6).hex()}_{self._chance.randbytes(24).hex()}"}
        body = json.dumps({"text": self._query()}).encode()
        await self._sent(wire, "POST", "/v1/route", body, headers, due=(401, 429))

    # -- what changes ------------------------------------------------------------------------------

    async def _key(self, wire: "Wire") -> None:  # noqa: ARG002 - it has one of its own
        """From another address each time. A new key counts at once, and a revoked one no more."""
        held, text = await asyncio.to_thread(
            self._keys.create, f"mixed-{next(self._numbers)}", ("route",), everything=True
        )
        own = Wire(self._port, self.outcomes, f"127.0.1.{self._chance.randint(1, 250)}")
        headers, body = {"Authorization": f"Bearer {text}"}, json.dumps({"text": self._query()}).encode()
        await self._sent(own, "POST", "/v1/route", body, headers, due=200)
        await self._sent(own, "POST", "/v1/cypher", b'{"statement": "RETURN 1"}', headers, due=403)
        await asyncio.to_thread(self._keys.revoke, held.id)
        await self._sent(own, "POST", "/v1/route", body, headers, due=401)
        await own.close()

    async def _write(self, wire: "Wire") -> None:
        """One writer at a time, nobody waits for another: else soon all would."""
        if self._writing.locked():
            return
        async with self._writing:
            body = manifest("mixed", edition(SMALL_SOURCE, next(self._numbers)))
            await self._asked(wire, "POST", "/v1/manifests", body, due=200)

    async def _set(self, wire: "Wire") -> None:
        if self._agents and not self._writing.locked():
            async with self._writing:
                body = {"tags": [f"tag-{next(self._numbers) % 5}"]}
                agent = self._chance.choice(self._agents)
                await self._asked(wire, "PATCH", f"/v1/agents/{agent}", body, due=(200, 404))

    # -- asking ------------------------------------------------------------------------------------

    async def _asked(
        self, wire: "Wire", method: str, path: str, body: Mapping[str, Any] | None, *, due: int | tuple[int, ...]
    ) -> Answer:
        content = b"" if body is None else json.dumps(body).encode()
        return await self._sent(wire, method, path, content, self._headers, due=due)

    async def _sent(
        self,
        wire: "Wire",
        method: str,
        path: str,
        content: bytes,
        headers: Mapping[str, str],
        *,
        due: int | tuple[int, ...],
    ) -> Answer:
        status, answer = await wire.ask(method, path, content, headers)
        outcomes = self.outcomes
        if status not in ((due,) if isinstance(due, int) else due) and len(outcomes.surprises) < MOST_SURPRISES:
            outcomes.surprises.append(f"{method} {path}: {status}, not {due}: {json.dumps(answer)[:300]}")
        return status, answer


class Wire:
    """One connection, opened again when it is lost."""

    def __init__(self, port: int, outcomes: Outcomes, address: str = OWN) -> None:
        self._port, self._outcomes, self._address = port, outcomes, address
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used_s = 0.0

    async def ask(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        """(0, {}) for a connection that was lost."""
        outcomes = self._outcomes
        outcomes.requests += 1
        try:
            status, answer = await self._exchanged(method, path, content, headers)
        except (OSError, EOFError) as lost:
            await self.close()
            outcomes.broken += 1
            outcomes.surprises.append(f"{method} {path}: {type(lost).__name__}: {lost}")
            return 0, {}
        outcomes.statuses[str(status)] = outcomes.statuses.get(str(status), 0) + 1
        if status == 503:
            outcomes.busy += 1
        elif status >= 500:
            outcomes.broken += 1
        return status, answer

    async def _exchanged(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        reader, writer = await self._connected()
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self._port}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        writer.write("\r\n".join(lines).encode() + HEAD_END + content)
        head = await reader.readuntil(HEAD_END)
        body = await reader.readexactly(content_length(head))
        if b"connection: close" in head.lower():
            await self.close()
        self._used_s = time.perf_counter()
        read = json.loads(body) if body else {}
        return int(head[9:12]), read if isinstance(read, dict) else {"items": read}

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        now = time.perf_counter()
        if now - self._used_s > IDLE_S:
            await self.close()
        if self._open is None:
            self._open = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(self._address, 0))
        self._used_s = now
        return self._open

    async def close(self) -> None:
        if self._open:
            _, writer = self._open
            self._open = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
