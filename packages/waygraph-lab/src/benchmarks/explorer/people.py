"""People who browse: each asks, lists agents, looks around one and opens the map, with a pause before each page."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx2

from benchmarks.catalogue import all_requests
from benchmarks.processes import TIMEOUT_S

PEOPLE, PAUSE_S, SEED = 20, (0.5, 1.5), 46
VIEWS = {"route": 12, "agents": 4, "graph": 3, "map": 1}
"""What a page asks the service for → how often, of 20 pages."""


@dataclass(slots=True)
class Browsed:
    """Milliseconds of each answer, by view. `errors`: answers other than 200, and requests without one."""

    times_ms: dict[str, list[float]] = field(default_factory=lambda: {view: [] for view in VIEWS})
    errors: list[str] = field(default_factory=list)

    @property
    def all_ms(self) -> list[float]:
        return [each for times in self.times_ms.values() for each in times]


def browse(url: str, goes_on: Callable[[], bool]) -> Browsed:
    """`PEOPLE` people, each with a connection of their own, until `goes_on` says no."""
    agents = httpx2.get(f"{url}/v1/agents", timeout=TIMEOUT_S).raise_for_status().json()["agents"]
    return asyncio.run(_browse(url, [each["id"] for each in agents], goes_on))


async def _browse(url: str, agents: list[str], goes_on: Callable[[], bool]) -> Browsed:
    browsed, texts = Browsed(), all_requests(time.time_ns())

    async def go(number: int) -> None:
        chance = random.Random(SEED + number)  # noqa: S311 - no secret
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            while goes_on():
                await asyncio.sleep(chance.uniform(*PAUSE_S))
                [view] = chance.choices(list(VIEWS), list(VIEWS.values()))
                await _look(client, view, chance.choice(agents), next(texts), browsed)

    await asyncio.gather(*(go(number) for number in range(PEOPLE)))
    return browsed


async def _look(client: httpx2.AsyncClient, view: str, agent: str, text: str, browsed: Browsed) -> None:
    start = time.perf_counter()
    try:
        response = await _open(client, view, agent, text)
    except httpx2.HTTPError as error:
        browsed.errors.append(f"{view}: {error!r}")
        return
    browsed.times_ms[view].append((time.perf_counter() - start) * 1000)
    if response.status_code != 200:
        browsed.errors.append(f"{view}: {response.status_code} {response.text[:200]}")


async def _open(client: httpx2.AsyncClient, view: str, agent: str, text: str) -> httpx2.Response:
    match view:
        case "route":
            return await client.post("/v1/route", json={"text": text, "recipe": "hybrid", "limit": 5})
        case "agents":
            return await client.get(f"/v1/agents?text={quote(text.rsplit(maxsplit=1)[-1])}")
        case "graph":
            return await client.get(f"/v1/graph?around=agent:{quote(agent)}&limit=60")
        case _:
            return await client.get("/v1/map")
