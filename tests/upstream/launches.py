"""Launches of the programs beside this file, and what is asked of them."""

import sys
from collections.abc import Mapping
from pathlib import Path

import anyio

from waygraph.ingest.manifest.records import Launch, StdioLaunch
from waygraph.ingest.upstream.connection import ServerListing
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.settings import Settings

PROGRAMS = Path(__file__).parent / "programs"
SETTINGS = Settings()


def handshake(*behaviour: str, env: Mapping[str, str] | None = None) -> StdioLaunch:
    args = ("-S", str(PROGRAMS / "handshake.py"), *behaviour)
    return StdioLaunch(command=sys.executable, args=args, env=env or {})


def modern() -> StdioLaunch:
    return StdioLaunch(command=sys.executable, args=(str(PROGRAMS / "modern.py"),))


def listing_of(launch: Launch, settings: Settings = SETTINGS) -> ServerListing:
    async def ask() -> ServerListing:
        async with connect(launch, settings) as connection:
            return await connection.listing()

    return anyio.run(ask)
