"""What a person on this machine had us ask: the only servers that a call may start, the only addresses that a card may
send one to, the only folders that a skill's text is read from.

The graph proves nothing of who named a command. It is written by whoever may write it: callers of a service, other
machines that share a database, exports and copies that came by mail. Rank 1 is no proof either: an export that is
restored says its own ranks, and one config among the documents of a source raises the rank of all of them. So what a
person opened here by `ingest`, `watch` or `serve --watch` is noted here, in the data folder, beside the tokens: each
server that was asked, under its source and key, with the digest of its launch as the graph holds it. Nothing that a
source, a service's caller or a copy of a registry says gets into this file, and a launch that became another is none
that was vouched for. Each registry has its own part: two of them may hold sources of one name. Of a server in a config
the graph has no values, and a variable of a command may load code (`LD_PRELOAD`, `NODE_OPTIONS`): so what the config
says, values included, is noted too, as a digest under a key that is made here and kept in this file alone. A value is
not in the file, and without the file no guess of it can be checked.
"""

import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest import records
from waygraph.registry.model.errors import StorageFailed
from waygraph.registry.model.files import file_stamp, write_lock, write_private
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import JsonText

VERSION = 3
_KEY_BYTES = 32
_LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VouchedServer:
    """A server that was asked here. `launch`: the digest of its transport as the graph holds it."""

    launch: str
    config: str = ""
    """The client's config that names it, absolute; empty: the transport in the graph is all there is."""
    written: str = ""
    """The digest of all that the config says of it (`VouchedFile.digest_of`)."""
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


def vouched_servers(
    servers: Iterable[records.ServerEntry], folder: str, digest_of: Callable[[str], str]
) -> dict[str, VouchedServer]:
    """Of servers that are asked by a person's word. `folder`: the working folder. `digest_of`: the file's own.

    Raises Refusal, and what `digest_of` raises.
    """
    entries = (server for server in servers if isinstance(server.record.transport, Mapping))
    return {server.key: _server(server, folder, digest_of) for server in entries}


def _no_digest(_: str) -> str:
    raise AssertionError("nothing is noted, so nothing is compared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """What a person had asked of one source before."""

    servers: Mapping[str, VouchedServer] = field(default_factory=dict)
    """By key."""
    digest_of: Callable[[str], str] = _no_digest
    """The file's own."""

    def select_same(self, find: Callable[[str], Iterable[records.ServerEntry]]) -> list[records.ServerEntry]:
        """The servers of which all of the launch is as it was then.

        `find`: a config's servers, with their references resolved as in a folder. Raises RegistryLocked, StorageFailed.
        """
        same = list[records.ServerEntry]()
        for folder in dict.fromkeys(server.folder for server in self.servers.values()):
            for server in find(folder):
                vouched_server = self.servers.get(server.key)
                if vouched_server and vouched_server.folder == folder and self._is_as(server, vouched_server):
                    same.append(server)
        return same

    def _is_as(self, server: records.ServerEntry, vouched_server: VouchedServer) -> bool:
        """Whichever way the config's path is written. A link to it is another config: its project may be another."""
        try:
            now = _server(server, vouched_server.folder, self.digest_of)
        except records.Refusal:  # such as an address that cannot be read
            return False
        return replace(now, config=os.path.normpath(now.config)) == replace(
            vouched_server, config=os.path.normpath(vouched_server.config)
        )


def launch_in(launch: records.Launch, folder: str) -> records.Launch:
    """The launch in the folder that it was asked in, if its config names none."""
    if isinstance(launch, records.StdioLaunch) and not launch.cwd and folder and Path(folder).is_dir():
        return replace(launch, cwd=folder)
    return launch


def vouched_cards(manifest: records.Manifest) -> dict[str, str]:
    return {e.key: launch_digest(e.agent.transport) for e in manifest.entries if e.agent.kind == "a2a_agent"}


def launch_digest(transport: JsonText) -> str:
    """Of a transport as the graph holds it."""
    return digest("launch", transport)


def _server(server: records.ServerEntry, folder: str, digest_of: Callable[[str], str]) -> VouchedServer:
    transport, launch = server.record.transport, server.launch
    config = str(Path(folder, server.where)) if server.in_config else ""
    return VouchedServer(
        launch=launch_digest(records.held_transport(transport if isinstance(transport, Mapping) else {})),
        config=config,
        written=digest_of(server.launch_text) if config else "",
        folder=folder,
        public=isinstance(launch, records.HttpLaunch) and launch.public,
        oauth=isinstance(launch, records.HttpLaunch) and launch.oauth,
    )


type _Sources = Mapping[str, VouchedSource]
"""By name."""


@dataclass(frozen=True, slots=True)
class _Content:
    """`key`: in hex; empty where nothing was noted under one yet."""

    key: str = field(default="", repr=False)
    registries: Mapping[str, _Sources] = field(default_factory=dict)
    """By place."""

    def source(self, registry: str, name: str) -> VouchedSource:
        return self.registries.get(registry, {}).get(name) or VouchedSource()

    def with_source(self, registry: str, name: str, vouched_source: VouchedSource) -> "_Content":
        own = {**self.registries.get(registry, {}), name: vouched_source}
        sources = {each: source for each, source in own.items() if not source.is_empty}
        return replace(self, registries={**self.registries, registry: sources})


@dataclass(slots=True)
class VouchedFile:
    """What was vouched for of the sources of one registry. Threads and processes may share the file."""

    path: Path
    registry: str
    """The place of its store."""
    _cache: "tuple[object, _Content] | None" = None
    """The content, and the stamp of the file that had it: one value, since threads share it."""

    def source(self, name: str) -> VouchedSource:
        """Empty for a source that nobody opened here. Raises StorageFailed for a file that is no such file."""
        return self._content().source(self.registry, name)

    @property
    def stamp(self) -> object:
        """Another value when the file is another one. Raises StorageFailed."""
        return file_stamp(self.path)

    def digest_of(self, text: str) -> str:
        """Of what a config says, under this file's key. Raises RegistryLocked, StorageFailed."""
        key = self._content().key or self._new_key()
        return hmac.digest(bytes.fromhex(key), text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def keep(self, name: str, vouched_source: VouchedSource, *, partial: bool = False) -> None:
        """In place of what is held of the source, or with `partial` beside it. Raises RegistryLocked, StorageFailed."""
        if not self._differs(name, vouched_source, partial=partial):
            return
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            content = self._content()
            entry = vouched_source.beside(self.source(name)) if partial else vouched_source
            self._write(content.with_source(self.registry, name, entry))

    def _new_key(self) -> str:
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            content = self._content()  # another process may have made one
            if not content.key:
                content = replace(content, key=secrets.token_hex(_KEY_BYTES))
                self._write(content)
            return content.key

    def _differs(self, name: str, vouched_source: VouchedSource, *, partial: bool) -> bool:
        former = self.source(name)
        return (vouched_source.beside(former) if partial else vouched_source) != former

    def _content(self) -> _Content:
        """Read anew when the file is another one."""
        if (stamp := self.stamp) is None:
            return _Content()
        cache = self._cache
        if cache is None or cache[0] != stamp:
            self._cache = cache = stamp, self._read()
        return cache[1]

    def _read(self) -> _Content:
        try:
            document = json.loads(self.path.read_bytes())
            if document["version"] == VERSION:
                return _content(document)
        except OSError as exc:
            raise StorageFailed(f"{self.path}: cannot be read: {exc.strerror}") from exc
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise StorageFailed(f"{self.path}: is no file of what was vouched for; remove it, and ingest anew") from None

    def _write(self, content: _Content) -> None:
        document = {
            "version": VERSION,
            "key": content.key,
            "registries": {
                place: {name: asdict(source) for name, source in sources.items()}
                for place, sources in content.registries.items()
            },
        }
        write_private(self.path, document, indent=1)


def vouched_file(folder: Path, registry: str) -> VouchedFile:
    """The file in the data folder. `registry`: the place of its store."""
    return VouchedFile(folder / "vouched.json", registry)


def _content(document: Mapping[str, Any]) -> _Content:
    """Raises KeyError, TypeError, ValueError, AttributeError."""
    bytes.fromhex(document["key"])
    return _Content(
        document["key"],
        {
            str(place): {str(name): _source(source) for name, source in sources.items()}
            for place, sources in document["registries"].items()
        },
    )


def _source(fields: Mapping[str, Any]) -> VouchedSource:
    """Raises KeyError, TypeError, AttributeError."""
    servers = {str(key): VouchedServer(**server) for key, server in fields["servers"].items()}
    return VouchedSource(**{**fields, "servers": servers})
