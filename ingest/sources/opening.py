"""What a person wrote, to the sources it names: a file, a folder, a command, an address.

Servers that a person points at without naming them are named by their command or their address.

The rule of what may be called: a person's word for a source, given by taking it in, kept in the trust store.
"""

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Self
from urllib.parse import urlsplit

from waygraph.ingest.manifest.environment import Resolver, Scope, UnresolvedReference
from waygraph.ingest.manifest.fields import items_of
from waygraph.ingest.manifest.own_gateway import LEFT_OUT, is_gateway, launches_gateway
from waygraph.ingest.manifest.records import AgentRecord, Intake, Manifest, Refusal, ServerEntry
from waygraph.ingest.manifest.transport import references_only, without_path_keys
from waygraph.ingest.manifest.trust_store import (
    Approvals,
    VouchedFile,
    VouchedServer,
    VouchedSource,
    vouched_cards,
    vouched_file,
    vouched_servers,
)
from waygraph.ingest.sources.formats.configured_server import launch_of, read_server
from waygraph.ingest.sources.formats.switches import Faulty
from waygraph.ingest.sources.kinds import REGISTRY_PREFIX, check_kind
from waygraph.ingest.sources.read import (
    STDIN,
    Listing,
    Parts,
    Reading,
    list_path,
    list_stream,
    list_value,
    read_parts,
    with_answers,
)
from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.model.errors import InvalidSetting, RegistryLocked, SourceError, StorageFailed
from waygraph.registry.model.identity import agent_id

SERVER_KIND = "mcp-server"
_SERVER_PATHS = {"mcp", "sse"}
_OF_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening(Reading):
    """How sources are opened and read. `source` and `namespace` empty: made from what was written.

    `headers` go to an address, `env` to a command.
    """

    source: str = ""
    namespace: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    isolate: bool | None = None
    """Of a command, as of a StdioLaunch."""
    oauth: bool = False
    since: str = ""
    is_named: bool = True
    """Whether a person named these sources; else they are those that a registry knows."""
    is_followed: bool = False
    """Every reading is a new one; else the first is that by which a file was opened."""
    progress: Progress | None = field(default=None, repr=False)
    """Of a registry's pages: entries read so far, and 0."""

    def __post_init__(self) -> None:
        """Raises InvalidSetting for a kind that is not known: it is wrong once, not of each file. Also for a yes to
        starting servers beside the wish to ask none.
        """
        if self.kind:
            check_kind(self.kind)
        if self.start and self.connect is False:
            raise InvalidSetting("start has servers asked, and no-connect has none asked: leave one of them away")

    def with_approvals(self, source: str) -> Self:
        """The same, with what a person had asked of this source before. Raises StorageFailed."""
        file = self.vouched_file()
        return replace(self, approvals=Approvals(servers=file.source(source).servers, digest_of=file.digest_of))

    def vouched_file(self) -> VouchedFile:
        return vouched_file(self.settings.data_path, self.registry)


class NoAnswer(SourceError):
    """The one server of a source does not answer; `manifest` says so."""

    def __init__(self, manifest: Manifest, reason: str) -> None:
        self.manifest = manifest
        super().__init__(manifest.source, reason)


type Place = Callable[[str, Opening], Parts]
"""Reads a source anew: what the source of this name says now, by itself. Raises SourceError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSource:
    """`how`: the terms on which it was opened. `content`: what it said then, by itself, if that had
    to be read.
    """

    name: str
    opened_name: str
    """Of what a person opened: another one for the sources that an export holds."""
    how: Opening = field(repr=False)
    place: Place = field(repr=False)
    content: Parts | None = field(default=None, repr=False)
    origin: str = ""
    """Of the address that a person named: scheme, host and port."""
    path: str = ""
    """The file, folder or pattern that a person named, absolute."""

    def parts(self) -> Parts:
        """What it says by itself: what it said when it was opened, or of a source that is followed what it says now.

        No server is asked. Raises SourceError.
        """
        return self.content if self.content and not self.how.is_followed else self.place(self.name, self.how)

    def read(self) -> Manifest:
        return self.with_answers(self.parts())

    def with_answers(self, parts: Parts) -> Manifest:
        """With what its servers say. Raises NoAnswer if the source is one server alone, and says nothing."""
        manifest = with_answers(parts, self.how.ask)
        if len(parts.servers) != 1 or manifest.entries or parts.manifest.rejected:
            return manifest
        if faults := manifest.rejected or manifest.cut[len(parts.manifest.cut) :]:
            reason = faults[0].reason  # nothing at all could be read
            if parts.no_document:
                reason = f"{parts.no_document}; as an MCP server: {reason}"
            raise NoAnswer(manifest, reason)
        return manifest


def refuse_unused(sources: Sequence[str], command: Sequence[str], how: Opening) -> None:
    """Raises SourceError for what would go to none of the sources: it was meant of one of them."""
    is_of_web = any(source.startswith((REGISTRY_PREFIX, *_OF_WEB)) for source in sources)
    if (how.headers or how.oauth) and not is_of_web:
        name = "headers" if how.headers else "oauth"
        raise SourceError(name, "meant for an address, and none is named; servers of a configuration have theirs in it")
    if how.env and not command:
        raise SourceError("env", "meant for a command, and none is named; servers of a configuration have theirs in it")


def open_sources(text: str, how: Opening) -> list[OpenedSource]:
    """One source, or each that an export holds. Raises SourceError."""
    if not text.strip():
        raise SourceError("ingest", "an empty text names no source; `.` is this folder")
    if how.since and not text.startswith(REGISTRY_PREFIX):
        raise SourceError(text, "only an MCP registry is asked what changed since a time; this source is read whole")
    if text.startswith(REGISTRY_PREFIX):
        return [_open_registry(text.removeprefix(REGISTRY_PREFIX), how)]
    if text.startswith(_OF_WEB):
        return [_open_address(text, how)]
    if text == STDIN:
        most_bytes = how.settings.max_source_bytes + 1
        listing = list_stream(sys.stdin.buffer, most_bytes, source=how.source, namespace=how.namespace)
        return _open_documents(Documents(listing=listing), how)
    try:
        path = str(Path(text).expanduser().absolute())
    except RuntimeError as exc:
        raise SourceError(text, f"is not there: {exc}") from exc
    return _open_documents(Documents(text=text), how, path=path)


def open_value(value: object, how: Opening) -> list[OpenedSource]:
    """What a file would hold, in memory. Raises SourceError if JSON cannot say it, or it has no name."""
    if not how.source:
        raise SourceError("ingest", "what comes in memory needs a name, by which it is known next time: source='…'")
    return _open_documents(Documents(listing=list_value(value, source=how.source, namespace=how.namespace)), how)


def open_command(command: Sequence[str], how: Opening) -> OpenedSource:
    """A server that is started by a command. Raises SourceError for none, and for a variable that is not set."""
    if not command or not command[0].strip():
        raise SourceError("ingest", "a command is missing: the words that start a server")
    entry: dict[str, object] = {"command": command[0], "args": list(command[1:])}
    if how.env:
        entry["env"] = dict(how.env)
    if how.isolate is not None:
        entry["isolate"] = how.isolate
    return _open_server(key_of_command(command), name_of_command(command), entry, how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """A Place: files, as a person wrote where they are, or a listing that stays."""

    text: str = ""
    listing: Listing | None = field(default=None, repr=False)
    are_named: bool = True
    """A folder that became a file since was not named as one."""

    def list(self, how: Opening) -> Listing:
        listing = self.listing or list_path(self.text, source=how.source, namespace=how.namespace)
        return replace(listing, is_named=self.are_named and listing.is_named)

    def __call__(self, name: str, how: Opening) -> Parts:
        parts_by_source = {parts.manifest.source: parts for parts in self.read_all(how)}
        if name not in parts_by_source:
            raise SourceError(name, "is no longer in the export that held it")
        return parts_by_source[name]

    def read_all(self, how: Opening) -> "Sequence[Parts]":
        """Of each source that they hold. A person's yes to starting servers was to those that were there before."""
        listing = self.list(how)
        return read_parts(listing, replace(how, start=False).with_approvals(listing.source))


def _open_documents(documents: Documents, how: Opening, *, path: str = "") -> list[OpenedSource]:
    """Read here, since only its content tells how many sources a file holds."""
    listing = documents.list(how)
    are_named = listing.is_named and how.is_named
    parts = read_parts(replace(listing, is_named=are_named), how.with_approvals(listing.source))
    return [
        OpenedSource(
            name=each.manifest.source,
            opened_name=listing.source,
            how=how,
            place=replace(documents, are_named=are_named),
            content=each,
            path=path,
        )
        for each in parts
    ]


def _open_registry(url: str, how: Opening) -> OpenedSource:
    from waygraph.ingest.sources.registry_source import open_registry  # brings the HTTP client

    source = open_registry(
        url,
        how.settings,
        since=how.since,
        source=how.source,
        namespace=how.namespace,
        headers=_resolve_headers(how.headers, how),
        progress=how.progress,
    )

    def read(_name: str, how: Opening) -> Parts:
        return source.parts(asks=bool(how.connect))

    return OpenedSource(name=source.name, opened_name=source.name, how=how, place=read)


def _open_address(url: str, how: Opening) -> OpenedSource:
    """An MCP server if its path or the person says so; else a document, and a server if it is none."""
    # They bring the HTTP client.
    from waygraph.ingest.sources.fetch import FetchFailed, Fetching, OfOthers, address_of, open_document
    from waygraph.registry.http.client import origin_of

    address_of(url)  # refuses what is none
    path = urlsplit(url).path.rstrip("/")
    if how.kind == SERVER_KIND or (not how.kind and path.rpartition("/")[2] in _SERVER_PATHS):
        return _open_server_at(url, how)
    fetching = Fetching(settings=how.settings, headers=_resolve_headers(how.headers, how))
    document = open_document(url, fetching, how, source=how.source, namespace=how.namespace)

    def read(_name: str, how: Opening) -> Parts:
        try:
            return document.parts()
        except SourceError as error:
            is_final = isinstance(error, OfOthers) or (isinstance(error, FetchFailed) and not error.status)
            if how.kind or not how.asks or is_final:
                raise
            return replace(_open_server_at(url, how).parts(), no_document=error.reason)

    return OpenedSource(name=document.name, opened_name=document.name, how=how, place=read, origin=origin_of(url))


def _open_server_at(url: str, how: Opening) -> OpenedSource:
    from waygraph.ingest.sources.fetch import address_of

    entry: dict[str, object] = {"url": url}
    if how.headers:
        entry["headers"] = dict(how.headers)
    if how.oauth:
        entry["oauth"] = True
    return _open_server(key_of_url(without_path_keys(url)), without_path_keys(address_of(url)), entry, how)


def _open_server(key: str, name: str, entry: Mapping[str, object], how: Opening) -> OpenedSource:
    """The source of one server, written as a config would have it; it alone can tell what it offers."""
    source = how.source or name
    try:
        configured_server = read_server(entry)
        launch = launch_of(configured_server, Scope(surroundings=how.surroundings))
    except Faulty as exc:
        raise SourceError(source, str(exc)) from None
    if is_gateway(configured_server.transport, how.registry) or launches_gateway(launch, how.registry):
        raise SourceError(source, LEFT_OUT)
    intake = Intake(where=source)
    record = AgentRecord(pointer="", key=key, transport=configured_server.transport, asked=False)
    intake.take(record)
    if intake.rejected:
        raise SourceError(source, intake.rejected[0].reason)
    parts = Parts(
        manifest=intake.manifest(source, how.namespace or agent_id(key)),
        servers=(ServerEntry(key=key, launch=launch, record=record),) if how.asks else (),
        must_answer=frozenset({key} if how.asks else ()),
    )
    return OpenedSource(name=source, opened_name=source, how=how, place=lambda _name, _how: parts)


def _resolve_headers(headers: Mapping[str, str], how: Opening) -> dict[str, str]:
    """With every reference resolved. Raises SourceError for one that is not set."""
    resolver = Resolver(Scope(surroundings=how.surroundings))
    try:
        values = {name: resolver.text(value) for name, value in headers.items()}
        resolver.finish()
    except UnresolvedReference as exc:
        raise SourceError("headers", str(exc)) from None
    return values


def vouch(source: OpenedSource, parts: Parts) -> None:
    """Notes what a person means by taking these parts in: which servers and addresses may be called from now on.

    Not of the sources in whose names an export speaks: a person opened the export. Raises SourceError if it cannot be
    noted.
    """
    if (manifest := parts.manifest).source != source.opened_name and not parts.no_document:
        return
    cards = vouched_cards(manifest) if source.origin and not parts.no_document else {}
    try:
        file = source.how.vouched_file()
        vouched_source = VouchedSource(
            servers=_vouched_servers(source, parts, file),
            cards=cards,
            origin=source.origin if cards else "",
            path=source.path if any(entry.agent.kind == "skill" for entry in manifest.entries) else "",
        )
        file.keep(manifest.source, vouched_source, partial=manifest.partial)
    except (Refusal, RegistryLocked, StorageFailed) as exc:
        raise SourceError(manifest.source, str(exc)) from exc


def _vouched_servers(source: OpenedSource, parts: Parts, file: VouchedFile) -> dict[str, VouchedServer]:
    """What a person had asked before counts as long as it is listed, unless it is asked as it is now."""
    earlier = file.source(parts.manifest.source).servers if parts.former_keys else {}
    servers = [server for server in parts.servers if server.key not in parts.approved_keys]
    return {
        **{key: server for key, server in earlier.items() if key in parts.former_keys},
        **vouched_servers(servers, source.how.surroundings.cwd, file.digest_of),
    }


_RUNNERS = {
    "npx", "bunx", "uvx", "pipx", "uv", "pnpm", "yarn", "bun", "deno", "node", "python", "docker", "podman",
}  # fmt: skip
"""Programs that start another one, which is what a server is named for."""
_SUB_COMMANDS = {"run", "dlx", "exec", "tool", "x"}
"""Of runners."""
_CONTAINERS = {"docker", "podman"}
_TAKE_A_VALUE = {
    "-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "-p", "--publish", "--network", "-w",
    "--workdir", "-u", "--user", "--platform",
}  # fmt: skip
"""Of what runs containers."""
_TAKE_A_VALUE_ELSEWHERE = {"--from", "--with", "--python", "--directory", "--project", "--package", "-p", "-m"}
_NAMING_FLAGS = {"-m"}
_PLAIN_STEMS = {"index", "main", "server", "cli", "app", "run", "__main__"}
_LAST_PARTS = {"mcp", "sse"}


def key_of_command(command: Sequence[str]) -> str:
    """What a command starts: `server-git` of `npx -y @acme/server-git@1.2 --read-only`; the program if nothing tells.

    >>> key_of_command(["uvx", "mcp-server-time"])
    'mcp-server-time'
    """
    words = iter(command)
    runs_another = False
    take_a_value = _TAKE_A_VALUE_ELSEWHERE
    for word in words:
        if word in take_a_value:
            value = next(words, "")
            if word in _NAMING_FLAGS and value:
                return _plain(value)
        elif _program(word) in _RUNNERS:
            runs_another = True
            take_a_value = _TAKE_A_VALUE if _program(word) in _CONTAINERS else _TAKE_A_VALUE_ELSEWHERE
        elif not word.startswith("-") and not (runs_another and word in _SUB_COMMANDS):
            return _plain(word)
    return _plain(command[0]) if command else ""


def key_of_url(url: str) -> str:
    """Host, a port that is not the scheme's, and what of the path tells servers of one host apart.

    >>> key_of_url("https://tools.example.com/billing/mcp?key=abc")
    'tools.example.com/billing'
    """
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    host = parts.hostname or "host"
    path = [part for part in parts.path.split("/") if part and not part.startswith("${")]
    while path and path[-1] in _LAST_PARTS:
        path.pop()
    return "/".join([host if parts.port in (None, usual) else f"{host}-{parts.port}", *path])


def name_of_command(command: Sequence[str]) -> str:
    """The command line as a source's name, references in place of what may be secrets."""
    program, *arguments = command
    transport = references_only({"command": program, "args": arguments})
    return shlex.join(
        [str(transport["command"]), *(without_path_keys(str(word)) for word in items_of(transport["args"]))]
    )


def printable_source(text: str) -> str:
    """What a person wrote, as it may be printed: an address with references in place of what may be secrets."""
    if "://" not in text:
        return text
    try:
        return without_path_keys(str(references_only({"url": text})["url"]))
    except ValueError:
        return f"{text.partition('://')[0]}://…"


def _program(word: str) -> str:
    """`python` of `/usr/bin/python3.12`."""
    return re.sub(r"[\d.]+$", "", PurePosixPath(word).name)


def _plain(word: str) -> str:
    """Without folder, scope, version, tag or extension."""
    path = PurePosixPath(word)
    name = re.split(r"(?<=.)[@:]", path.name, maxsplit=1)[0].lstrip("@")
    stem = re.sub(r"\.(?:py|m?js|cjs|ts|jar|exe)$", "", name)
    if stem in _PLAIN_STEMS and path.parent.name and stem != name:
        return _plain(path.parent.name)
    return stem or word
