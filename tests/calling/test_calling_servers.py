"""Tools of MCP servers through the executor: a program that a person ingested, started for a call and ended."""

import sys
import time
from pathlib import Path

import anyio
import pytest

from tests.calling.opened_here import Here
from tests.mcp_stubs import TIDE_TABLES
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import open_executor
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.model.errors import NotCallable, UpstreamUnreachable

DEADLINE_S = 30.0
"""Of a call: what closes sooner did not wait for one."""
MARKED = """
import os
with open({pids!r}, "a") as file:
    print(os.getpid(), file=file)
"""


@pytest.fixture
def pids(here: Here) -> Path:
    """Of the processes of `tide_tables.py`, which was ingested."""
    file = here.folder / "pids"
    here.write("tide_tables.py", MARKED.format(pids=str(file)) + TIDE_TABLES.replace('return "low"', "return harbour"))
    here.ingest_command([sys.executable, str(here.folder / "tide_tables.py")])
    return file


def call(here: Here, agent_id: str = "tide_tables", **arguments: object) -> ToolCall:
    agent = here.registry.agent(agent_id)
    return ToolCall(agent=agent, tool=here.registry.tools(agent_id)[0], arguments=arguments, deadline_s=DEADLINE_S)


def running(pids: Path) -> list[int]:
    return [int(pid) for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()]


def test_a_server_is_started_by_its_first_call_and_ends_with_the_executor(here: Here, pids: Path) -> None:
    async def main() -> tuple[list[Result], list[int], float]:
        async with open_executor(here.registry, here.settings, here.surroundings) as executor:
            assert running(pids) == []
            answers = [await executor.call(call(here, harbour=harbour)) for harbour in ("Lisbon", "Porto")]
            during, began = running(pids), time.monotonic()
        return answers, during, time.monotonic() - began

    answers, during, closing_s = anyio.run(main)
    assert [answer["content"][0]["text"] for answer in answers] == ["Lisbon", "Porto"]
    assert len(during) == 1
    assert running(pids) == []
    assert closing_s < DEADLINE_S


def test_what_only_a_catalogue_names_is_not_started_by_a_call(here: Here) -> None:
    agents = [{"id": "evil", "transport": here.entry, "tools": [{"name": "run"}]}]
    here.ingest(here.write("x.json", {"waygraph": 1, "agents": agents}))

    async def main() -> None:
        async with open_executor(here.registry, here.settings, here.surroundings) as executor:
            with pytest.raises(NotCallable, match="catalogue only"):
                await executor.call(call(here, "evil"))

    anyio.run(main)
    assert here.starts == 0


def test_calls_that_wait_for_a_server_end_when_it_closes(here: Here, pids: Path) -> None:
    async def main() -> float:
        began = 0.0
        here.write("tide_tables.py", MARKED.format(pids=str(pids)) + "import time; time.sleep(600)")
        async with (
            anyio.create_task_group() as tasks,
            open_executor(here.registry, here.settings, here.surroundings) as executor,
        ):

            async def ask() -> None:
                with pytest.raises(UpstreamUnreachable):
                    await executor.call(call(here, harbour="Faro"))

            tasks.start_soon(ask)
            with anyio.fail_after(DEADLINE_S):
                while not running(pids):
                    await anyio.sleep(0.02)
            began = time.monotonic()
        return time.monotonic() - began

    assert anyio.run(main) < DEADLINE_S
    assert running(pids) == []
