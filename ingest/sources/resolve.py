"""What a person wrote, to the sources it names: a file, a folder, a command, an address."""

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from waygraph.ingest.manifest.environment import Resolver, Scope, Surroundings, UnresolvedReference
from waygraph.ingest.manifest.manifest import Manifest
from waygraph.ingest.manifest.own_gateway import LEFT_OUT, is_gateway, launches_gateway
from waygraph.ingest.manifest.records import AgentRecord, Intake, Refusal, ServerEntry
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
from waygraph.ingest.sources.formats.configured_server import Faulty, launch_of, read_server
from waygraph.ingest.sources.kinds import REGISTRY_PREFIX, check_kind
from waygraph.ingest.sources.read import (
    STDIN,
    Ask,
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
from waygraph.registry.model.settings import Settings

# Names for servers that a person points at without naming them: by their command or their address.

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
        [str(transport["command"]), *(without_path_keys(str(word)) for word in _list_of(transport["args"]))]
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


def _list_of(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


SERVER_KIND = "mcp-server"
_SERVER_PATHS = {"mcp", "sse"}
_OF_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How sources are opened. `source` and `namespace` empty: made from what was written.

    `headers` go to an address, `env` to a command. `connect`: True also asks servers that a registry lists, False
    asks none, None those that only they themselves can tell of.
    """

    settings: Settings
    registry: str = ""
    """The place of the registry into which they go: what a person has asked is noted for each of its own."""
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)
    source: str = ""
    namespace: str = ""
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauth: bool = False
    since: str = ""
    connect: bool | None = None
    start: bool = False
    """A person's yes to the configurations that are met now below a folder, or fit a pattern."""
    is_named: bool = True
    """Whether a person named these sources; else they are those that a registry knows."""
    is_followed: bool = False
    """Every reading is a new one; else the first is that by which a file was opened."""
    ask: Ask | None = field(default=None, repr=False)
    """None: servers cannot be asked here."""
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

    def reading(self) -> Reading:
        ask = None if self.connect is False else self.ask
        return Reading(
            settings=self.settings,
            kind=self.kind,
            ask=ask,
            connect=bool(self.connect),
            start=self.start,
            registry=self.registry,
            surroundings=self.surroundings,
        )

    def approved_reading(self, source: str) -> Reading:
        """The same, with what a person had asked of this source before. Raises StorageFailed."""
        file = self.vouched_file()
        return replace(
            self.reading(), approvals=Approvals(servers=file.source(source).servers, digest_of=file.digest_of)
        )

    def vouched_file(self) -> VouchedFile:
        return vouched_file(self.settings.data_path, self.registry)


class NoAnswer(SourceError):
    """The one server of a source does not answer; `manifest` says so."""

    def __init__(self, manifest: Manifest, reason: str) -> None:
        self.manifest = manifest
        super().__init__(manifest.source, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSource:
    """Implements Source. `parts` reads what the source says by itself, again at each call; `read` asks its servers.

    `vouch` notes what a person means by taking these parts in: which servers and addresses may be called from now on.
    Raises SourceError if it cannot be noted.
    """

    name: str
    parts: Callable[[], Parts] = field(repr=False)
    vouch: Callable[[Parts], None] = field(repr=False)
    ask: Ask | None = field(default=None, repr=False)
    listing: Callable[[], Listing] | None = field(default=None, repr=False)
    """Of documents: themselves, for whoever reads them elsewhere."""

    def read(self) -> Manifest:
        return self.with_answers(self.parts())

    def with_answers(self, parts: Parts) -> Manifest:
        """With what its servers say. Raises NoAnswer if the source is one server alone, and says nothing."""
        manifest = with_answers(parts, self.ask)
        if len(parts.servers) != 1 or manifest.entries or parts.manifest.rejected:
            return manifest
        faults = manifest.rejected or manifest.cut[len(parts.manifest.cut) :]
        if faults:
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
        return [_registry(text.removeprefix(REGISTRY_PREFIX), how)]
    if text.startswith(_OF_WEB):
        return [_address(text, how)]
    if text == STDIN:
        return _documents(_keep_listing(list_stream(sys.stdin.buffer, source=how.source, namespace=how.namespace)), how)
    try:
        path = str(Path(text).expanduser().absolute())
    except RuntimeError as exc:
        raise SourceError(text, f"is not there: {exc}") from exc
    return _documents(lambda: list_path(text, source=how.source, namespace=how.namespace), how, path=path)


def open_value(value: object, how: Opening) -> list[OpenedSource]:
    """What a file would hold, in memory. Raises SourceError if JSON cannot say it, or it has no name."""
    if not how.source:
        raise SourceError("ingest", "what comes in memory needs a name, by which it is known next time: source='…'")
    listing = list_value(value, source=how.source, namespace=how.namespace)
    return _documents(lambda: listing, how)


def open_command(command: Sequence[str], how: Opening) -> OpenedSource:
    """A server that is started by a command. Raises SourceError for none, and for a variable that is not set."""
    if not command or not command[0].strip():
        raise SourceError("ingest", "a command is missing: the words that start a server")
    entry: dict[str, object] = {"command": command[0], "args": list(command[1:])}
    if how.env:
        entry["env"] = dict(how.env)
    return _server(key_of_command(command), name_of_command(command), entry, how)


def _documents(listing: Callable[[], Listing], how: Opening, *, path: str = "") -> list[OpenedSource]:
    """Read once here, since only its content tells how many sources a file holds."""
    first = listing()
    is_named, vouch = first.is_named and how.is_named, _vouching(first.source, how, path=path)

    def listing_now() -> Listing:
        """A folder that became a file since was not named as one."""
        now = listing()
        return replace(now, is_named=is_named and now.is_named)

    def read_all(now: Listing, how: Opening) -> list[Parts]:
        return read_parts(now, how.approved_reading(now.source))

    def read_anew(name: str) -> Parts:
        later = replace(how, start=False)  # the yes was to what was there
        now = {parts.manifest.source: parts for parts in read_all(listing_now(), later)}
        if name not in now:
            raise SourceError(name, "is no longer in the export that held it")
        return now[name]

    def read(parts: Parts) -> Callable[[], Parts]:
        again = partial(read_anew, parts.manifest.source)
        if how.is_followed and how.start:
            vouch(parts)
        return again if how.is_followed else _Read(parts, again)

    return [
        OpenedSource(
            name=parts.manifest.source, parts=read(parts), vouch=vouch, ask=how.reading().ask, listing=listing_now
        )
        for parts in read_all(replace(first, is_named=is_named), how)
    ]


def _vouching(source: str, how: Opening, *, origin: str = "", path: str = "") -> Callable[[Parts], None]:
    """Not of the sources in whose names an export speaks: a person opened the export."""

    def vouch(parts: Parts) -> None:
        manifest = parts.manifest
        if manifest.source != source:
            return
        cards = vouched_cards(manifest) if origin else {}
        try:
            file = how.vouched_file()
            vouched_source = VouchedSource(
                servers=_vouched_servers(parts, file, how) if how.reading().ask else {},
                cards=cards,
                origin=origin if cards else "",
                path=path if any(entry.agent.kind == "skill" for entry in manifest.entries) else "",
            )
            file.keep(manifest.source, vouched_source, partial=manifest.partial)
        except (Refusal, RegistryLocked, StorageFailed) as exc:
            raise SourceError(manifest.source, str(exc)) from exc

    return vouch


def _vouched_servers(parts: Parts, file: VouchedFile, how: Opening) -> dict[str, VouchedServer]:
    """What a person had asked before counts as long as it is listed, unless it is asked as it is now."""
    earlier = file.source(parts.manifest.source).servers if parts.former_keys else {}
    servers = [server for server in parts.servers if server.key not in parts.approved_keys]
    return {
        **{key: server for key, server in earlier.items() if key in parts.former_keys},
        **vouched_servers(servers, how.surroundings.cwd, file.digest_of),
    }


class _Read:
    """What was read already, the first time; read anew every other time."""

    def __init__(self, first: Parts, again: Callable[[], Parts]) -> None:
        self._first: Parts | None = first
        self._again = again

    def __call__(self) -> Parts:
        first, self._first = self._first, None
        return first or self._again()


def _keep_listing(listing: Listing) -> Callable[[], Listing]:
    """Standard input can be read once only."""
    [(name, content)] = listing.files
    contents: list[bytes] = []

    def again(most_bytes: int) -> bytes:
        if not contents:
            contents.append(content(most_bytes))
        return contents[0]

    repeatable = replace(listing, files=[(name, again)])
    return lambda: repeatable


def _registry(url: str, how: Opening) -> OpenedSource:
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

    def parts() -> Parts:
        if not how.connect:
            return Parts(manifest=source.read())
        manifest, servers = source.read_with_servers()
        return Parts(manifest=manifest, servers=servers)

    return OpenedSource(name=source.name, parts=parts, vouch=_vouching(source.name, how), ask=how.ask)


def _address(url: str, how: Opening) -> OpenedSource:
    """An MCP server if its path or the person says so; else a document, and a server if it is none."""
    from waygraph.ingest.sources.fetch import address_of  # brings the HTTP client

    name = address_of(url)
    path = urlsplit(url).path.rstrip("/")
    if how.kind == SERVER_KIND or (not how.kind and path.rpartition("/")[2] in _SERVER_PATHS):
        return _server_at(url, name, how)
    return _document_at(url, name, how)


def _document_at(url: str, name: str, how: Opening) -> OpenedSource:
    from waygraph.ingest.sources.fetch import FetchFailed, Fetching, OfOthers, open_document
    from waygraph.registry.http.client import origin_of

    reading = how.reading()
    fetching = Fetching(settings=how.settings, headers=_resolve_headers(how.headers, how))
    document = open_document(url, fetching, reading, source=how.source, namespace=how.namespace)

    def parts() -> Parts:
        try:
            return document.parts()
        except SourceError as error:
            is_final = isinstance(error, OfOthers) or (isinstance(error, FetchFailed) and not error.status)
            if how.kind or reading.ask is None or is_final:
                raise
            return replace(_server_at(url, name, how).parts(), no_document=error.reason)

    def vouch(document_parts: Parts) -> None:
        of_document = _vouching(document.name, how, origin=origin_of(url))
        (_server_at(url, name, how).vouch if document_parts.no_document else of_document)(document_parts)

    return OpenedSource(name=document.name, parts=parts, vouch=vouch, ask=reading.ask)


def _server_at(url: str, name: str, how: Opening) -> OpenedSource:
    entry: dict[str, object] = {"url": url}
    if how.headers:
        entry["headers"] = dict(how.headers)
    if how.oauth:
        entry["oauth"] = True
    return _server(key_of_url(without_path_keys(url)), without_path_keys(name), entry, how)


def _server(key: str, name: str, entry: Mapping[str, object], how: Opening) -> OpenedSource:
    """The source of one server, written as a config would have it; it alone can tell what it offers."""
    source = how.source or name
    try:
        configured_server = read_server(entry)
        launch = launch_of(configured_server, Scope(surroundings=how.surroundings))
    except Faulty as exc:
        raise SourceError(source, str(exc)) from None
    if is_gateway(configured_server.transport, how.registry) or launches_gateway(launch, how.registry):
        raise SourceError(source, LEFT_OUT)
    intake = Intake(where=source, settings=how.settings)
    record = AgentRecord(pointer="", key=key, transport=configured_server.transport, asked=False)
    intake.take(record)
    if intake.rejected:
        raise SourceError(source, intake.rejected[0].reason)
    is_asked = how.reading().ask is not None
    parts = Parts(
        manifest=intake.manifest(source, how.namespace or agent_id(key)),
        servers=(ServerEntry(key=key, launch=launch, record=record),) if is_asked else (),
        must_answer=frozenset({key} if is_asked else ()),
    )
    return OpenedSource(name=source, parts=lambda: parts, vouch=_vouching(source, how), ask=how.reading().ask)


def _resolve_headers(headers: Mapping[str, str], how: Opening) -> dict[str, str]:
    """With every reference resolved. Raises SourceError for one that is not set."""
    resolver = Resolver(Scope(surroundings=how.surroundings))
    try:
        values = {name: resolver.text(value) for name, value in headers.items()}
        resolver.finish()
    except UnresolvedReference as exc:
        raise SourceError("headers", str(exc)) from None
    return values
