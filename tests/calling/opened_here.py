"""A registry into which a person ingests on this machine: real programs that note each start, and real files."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.upstream.launches import PROGRAMS
from waygraph import Settings
from waygraph.ingest.execution.executor import Launches
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.manifest.trust_store import VouchedFile, vouched_file
from waygraph.ingest.sources.mcp_servers import McpServers
from waygraph.ingest.sources.opening import OpenedSource, Opening, open_command, open_sources, vouch
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.nouns import Agent
from waygraph.registry.storage.local_registry import LocalRegistry

PROGRAM = """
import os, runpy, sys
with open(os.environ.get("STARTED", {started!r}), "a") as file:
    print("started", file=file)
sys.argv = [{handshake!r}]
runpy.run_path({handshake!r}, run_name="__main__")
"""


@dataclass
class Here:
    """A machine: its data folder, its environment, one registry, and a program that is an MCP server."""

    folder: Path
    registry: LocalRegistry
    environ: dict[str, str] = field(default_factory=dict)
    settings: Settings = field(init=False)
    program: Path = field(init=False)

    def __post_init__(self) -> None:
        self.settings = Settings(data_dir=str(self.folder / "data"))
        self.program = self.folder / "scales.py"
        text = PROGRAM.format(started=str(self.folder / "started"), handshake=str(PROGRAMS / "handshake.py"))
        self.program.write_text(text)

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-S", str(self.program)]

    @property
    def entry(self) -> dict[str, Any]:
        """The program, as a client's config has it."""
        return {"command": self.command[0], "args": self.command[1:]}

    @property
    def vouched(self) -> Path:
        """The file of what a person had asked here."""
        return self.settings.data_path / "vouched.json"

    @property
    def vouched_file(self) -> VouchedFile:
        """Its part of this registry."""
        return vouched_file(self.settings.data_path, self.registry.store.place)

    @property
    def vouched_sources(self) -> dict[str, Any]:
        """What the file has of this registry's sources, as JSON."""
        found: dict[str, Any] = json.loads(self.vouched.read_text())["registries"][self.registry.store.place]
        return found

    @property
    def starts(self) -> int:
        """How often the program was started."""
        marks = self.folder / "started"
        return len(marks.read_text().splitlines()) if marks.exists() else 0

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(environ=self.environ, home=str(self.folder), cwd=str(self.folder))

    @property
    def launches(self) -> Launches:
        """As a gateway of this machine has them."""
        return Launches(
            registry=self.registry, settings=self.settings, surroundings=self.surroundings, trust_file=self.vouched_file
        )

    def opening(self, **options: Any) -> Opening:
        return Opening(
            settings=self.settings,
            registry=self.registry.store.place,
            surroundings=self.surroundings,
            ask=self._ask,
            **options,
        )

    def ingest(self, given: str, **options: Any) -> list[Agent]:
        """What `waygraph ingest GIVEN` does."""
        return self._synced(open_sources(given, self.opening(**options)))

    def ingest_command(self, command: Sequence[str], **options: Any) -> list[Agent]:
        """What `waygraph ingest -- COMMAND` does."""
        return self._synced([open_command(command, self.opening(**options))])

    def write(self, name: str, document: object) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    def config(self, servers: Mapping[str, object], name: str = "mcp.json") -> str:
        return self.write(name, {"mcpServers": servers})

    def _ask(self, source: str, servers: Sequence[ServerEntry]) -> Manifest:
        return McpServers(name=source, servers=servers, settings=self.settings).read()

    def _synced(self, sources: Sequence[OpenedSource]) -> list[Agent]:
        for source in sources:
            parts = source.parts()
            sync(self.registry, source.with_answers(parts), allow_mass_removal=True)
            vouch(source, parts)
        return self.registry.agents()
