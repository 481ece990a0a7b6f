"""A service that documents itself: its OpenAPI document is fetched from it, its operations are called."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import anyio
import pytest
import uvicorn
from fastapi import Cookie, FastAPI, File, Header, HTTPException, Query, UploadFile
from pydantic import BaseModel

from tests.calling.opened_here import Here
from tests.live_http import free_port
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import open_executor
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.model.arguments import check_arguments


class Crate(BaseModel):
    weight_kg: float
    marks: list[str] = []


def freight() -> FastAPI:
    app = FastAPI(title="freight")

    @app.put("/holds/{hold}/crates/{number}", operation_id="load")
    async def load(  # noqa: PLR0917 - one of each place
        hold: str,
        number: int,
        crate: Crate,
        mark: Annotated[list[str], Query()],
        x_clerk: Annotated[str, Header()],
        berth: Annotated[str, Cookie()] = "",
    ) -> dict[str, Any]:
        return {"hold": hold, "number": number, "crate": crate, "mark": mark, "clerk": x_clerk, "berth": berth}

    @app.post("/papers", operation_id="file_papers")
    async def file_papers(paper: Annotated[UploadFile, File()]) -> dict[str, Any]:
        return {"bytes": len(await paper.read())}

    @app.get("/crates/{number}", operation_id="find")
    async def find(number: int) -> Crate:
        raise HTTPException(404, f"no crate {number}")

    return app


@pytest.fixture
def address() -> Iterator[str]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(freight(), port=port, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def called(here: Here, address: str, tool: str, **arguments: Any) -> Result:
    services = here.write(
        "services.toml", f'[[service]]\nagent = "freight"\nbase_url = "{address}"\nallow_private = true\n'
    )
    agent = here.registry.agent("freight")
    wanted = here.registry.tool(f"freight/{tool}")
    check_arguments(wanted, arguments)

    async def main() -> Result:
        settings = replace(here.settings, services_file=services)
        async with open_executor(here.registry, settings, here.surroundings) as executor:
            return await executor.call(ToolCall(agent=agent, tool=wanted, arguments=arguments, deadline_s=20.0))

    return anyio.run(main)


def test_what_it_gets_is_what_was_meant(here: Here, address: str) -> None:
    """Each argument by its own place, checked against the schema that the tool has."""
    here.ingest(f"{address}/openapi.json")
    given = {"hold": "fore & aft? ü", "number": 7, "mark": ["a b", "c&d"], "x-clerk": "Ana", "berth": "three"}
    got = called(here, address, "load", **given, weight_kg=2.5, marks=["x"])
    assert got["structuredContent"] == {
        "hold": "fore & aft? ü",
        "number": 7,
        "crate": {"weight_kg": 2.5, "marks": ["x"]},
        "mark": ["a b", "c&d"],
        "clerk": "Ana",
        "berth": "three",
    }
