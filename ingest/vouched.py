"""What a person on this machine had us ask: the only servers that a call may start, the only addresses that a card may
send one to, the only folders that a skill's text is read from.

The graph proves nothing of who named a command. It is written by whoever may write it: callers of a service, other
machines that share a database, exports and copies that came by mail. Rank 1 is no proof either: an export that is
restored says its own ranks, and one config among the documents of a source raises the rank of all of them. So what a
person opened here by `ingest`, `watch` or `serve --watch` is noted here, in the data folder, beside the tokens: each
server that was asked, under its source and key, with the digest of its launch as the graph holds it. Nothing that a
source, a service's caller or a copy of a registry says gets into this file, and a launch that became another is none
that was vouched for.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest import held_transport
from waygraph.ingest.upstream.launch import HttpLaunch, ServerEntry
from waygraph.registry.atomic import write_atomically
from waygraph.registry.changes import Manifest
from waygraph.registry.errors import StorageFailed
from waygraph.registry.identity import digest
from waygraph.registry.model import JsonText
from waygraph.registry.storage.lock import write_lock

VERSION = 1
STREAM = "stdin"
"""The document that standard input is, which cannot be read again."""
_LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VouchedServer:
    """A server that was asked here. `launch`: the digest of its transport as the graph holds it."""

    launch: str
    config: str = ""
    """The client's config that names it, absolute; empty: the transport in the graph is all there is."""
    folder: str = ""
    """Where it was started, absolute."""
    public: bool = False
    """Whether only addresses of the open internet may be connected to: an MCP registry named it."""
    oauth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VouchedSource:
    """What was vouched for by opening one source."""

    servers: Mapping[str, VouchedServer] = field(default_factory=dict)
    """By key in the source."""
    cards: Mapping[str, str] = field(default_factory=dict)
    """Key of each agent that a card tells of → digest of its transport."""
    origin: str = ""
    """Of the address that the person named: scheme, host and port."""
    path: str = ""
    """The file, folder or pattern that holds skills, absolute."""

    @property
    def is_empty(self) -> bool:
        return not (self.servers or self.cards or self.path)

    def beside(self, earlier: "VouchedSource") -> "VouchedSource":
        """This, and what an earlier look vouched for and this one, which was of a part, does not speak of."""
        return VouchedSource(
            servers={**earlier.servers, **self.servers},
            cards={**earlier.cards, **self.cards},
            origin=self.origin or earlier.origin,
            path=self.path or earlier.path,
        )


def vouched_servers(servers: Iterable[ServerEntry], folder: str) -> dict[str, VouchedServer]:
    """Of servers that are asked by a person's word. `folder`: the working folder. Raises Refusal."""
    return {server.key: _server(server, folder) for server in servers if isinstance(server.record.transport, Mapping)}


def vouched_cards(manifest: Manifest) -> dict[str, str]:
    return {e.key: launch_digest(e.agent.transport) for e in manifest.entries if e.agent.kind == "a2a_agent"}


def launch_digest(transport: JsonText) -> str:
    """Of a transport as the graph holds it."""
    return digest("launch", transport)


def _server(server: ServerEntry, folder: str) -> VouchedServer:
    transport, launch = server.record.transport, server.launch
    return VouchedServer(
        launch=launch_digest(held_transport(transport if isinstance(transport, Mapping) else {})),
        config=str(Path(folder, server.where)) if server.in_config and server.where != STREAM else "",
        folder=folder,
        public=isinstance(launch, HttpLaunch) and launch.public,
        oauth=isinstance(launch, HttpLaunch) and launch.oauth,
    )


@dataclass(slots=True)
class VouchedFile:
    """The file of all that was vouched for. Threads and processes may share it."""

    path: Path
    _read_at: tuple[int, int, int] | None = None
    _sources: Mapping[str, VouchedSource] = field(default_factory=dict)

    def source(self, name: str) -> VouchedSource:
        """Empty for a source that nobody opened here. Raises StorageFailed for a file that is no such file."""
        return self._held().get(name, VouchedSource())

    def keep(self, name: str, vouched: VouchedSource, *, partial: bool = False) -> None:
        """In place of what was held of the source, or with `partial` beside it. Raises StorageFailed."""
        if not self._differs(name, vouched, partial=partial):
            return
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            sources = dict(self._held())
            sources[name] = vouched.beside(self.source(name)) if partial else vouched
            self._write({name: source for name, source in sources.items() if not source.is_empty})

    def _differs(self, name: str, vouched: VouchedSource, *, partial: bool) -> bool:
        held = self.source(name)
        return (vouched.beside(held) if partial else vouched) != held

    def _held(self) -> Mapping[str, VouchedSource]:
        """Read anew when the file is another one."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise StorageFailed(f"{self.path}: cannot be read: {exc.strerror}") from exc
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp != self._read_at:
            self._sources = self._read()
            self._read_at = stamp
        return self._sources

    def _read(self) -> dict[str, VouchedSource]:
        try:
            document = json.loads(self.path.read_bytes())
            if document["version"] == VERSION:
                return {str(name): _source(told) for name, told in document["sources"].items()}
        except OSError as exc:
            raise StorageFailed(f"{self.path}: cannot be read: {exc.strerror}") from exc
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise StorageFailed(f"{self.path}: is no file of what was vouched for; remove it, and ingest anew") from None

    def _write(self, sources: Mapping[str, VouchedSource]) -> None:
        told = {"version": VERSION, "sources": {name: asdict(source) for name, source in sources.items()}}
        try:
            write_atomically(self.path, json.dumps(told, indent=1).encode(), private=True)
        except OSError as exc:
            raise StorageFailed(f"{self.path}: cannot be written: {exc.strerror}") from exc


def vouched_file(folder: Path) -> VouchedFile:
    """The file in the data folder."""
    return VouchedFile(folder / "vouched.json")


def _source(told: Mapping[str, Any]) -> VouchedSource:
    """Raises TypeError, AttributeError."""
    servers = {str(key): VouchedServer(**server) for key, server in told["servers"].items()}
    return VouchedSource(**{**told, "servers": servers})
