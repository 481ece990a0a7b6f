"""An MCP registry as a source: its list of servers over HTTP, whole or what changed since a time.

The official one is https://registry.modelcontextprotocol.io; a subregistry speaks the same API.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from waygraph.ingest.manifest import Intake
from waygraph.ingest.sources import mcp_registry
from waygraph.ingest.sources.naming import REGISTRY_PREFIX
from waygraph.ingest.sources.registry_pages import PAGE_ENTRIES, Fetched, RegistryPages, Unread, World
from waygraph.ingest.upstream.launch import ServerEntry
from waygraph.registry.changes import Manifest
from waygraph.registry.embedding.protocol import Progress
from waygraph.registry.errors import SourceError
from waygraph.registry.identity import agent_id
from waygraph.registry.machine.hosts import names_user, split_url
from waygraph.registry.settings import Settings

OFFICIAL_URL = "https://registry.modelcontextprotocol.io"
OFFICIAL_NAMESPACE = "mcp-registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySource:
    """Implements Source. Made by `open_registry`, which checks what is given."""

    url: str
    """Of the list of servers."""
    settings: Settings
    name: str
    namespace: str
    since: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    progress: Progress | None = None
    """Called with the entries read so far, and 0: how many there are is not told."""
    world: World = field(default_factory=World)

    def read(self) -> Manifest:
        """Partial if only what changed was asked for, or some pages could not be read. Raises SourceError."""
        return self._manifest(self._fetched())

    def read_with_servers(self) -> tuple[Manifest, tuple[ServerEntry, ...]]:
        """The same, and those of its servers that have an open remote. Raises SourceError."""
        fetched = self._fetched()
        intake = Intake(where=self.url, settings=self.settings)
        return self._manifest(fetched), tuple(mcp_registry.servers(self._document(fetched), self.url, intake))

    def _fetched(self) -> Fetched:
        query = {"limit": str(PAGE_ENTRIES), "version": "latest"}
        if self.since:
            query |= {"updated_since": self.since, "include_deleted": "true"}
        pages = RegistryPages(
            url=self.url,
            query=query,
            settings=self.settings,
            headers=self.headers,
            progress=self.progress,
            world=self.world,
        )
        try:
            return pages.fetch()
        except Unread as exc:
            raise SourceError(self.url, str(exc)) from None

    def _document(self, fetched: Fetched) -> dict[str, object]:
        """Of what changed, only latest versions: an older one that changed says nothing of the agent."""
        latest = [entry for entry in fetched.entries if not (self.since and mcp_registry.is_superseded(entry))]
        return {"servers": latest}

    def _manifest(self, fetched: Fetched) -> Manifest:
        intake = Intake(where=self.url, settings=self.settings)
        for record in mcp_registry.read(self._document(fetched), self.url, intake):
            intake.take(record)
        if fetched.fault:
            intake.reject_agent("", fetched.fault)
        manifest = intake.manifest(self.name, self.namespace)
        return replace(manifest, partial=manifest.partial or bool(self.since))


def open_registry(
    url: str,
    settings: Settings,
    *,
    since: str = "",
    source: str = "",
    namespace: str = "",
    headers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    world: World | None = None,
) -> RegistrySource:
    """`url` empty: the official one; else a registry's address, or that of its list. `since`: RFC 3339, with a zone.

    Raises SourceError for an address or a time that is none.
    """
    base = _base(url or OFFICIAL_URL)
    return RegistrySource(
        url=_list_url(base),
        settings=settings,
        name=source or f"{REGISTRY_PREFIX}{base}",
        namespace=namespace or _namespace(base),
        since=_checked_time(since) if since else "",
        headers=headers or {},
        progress=progress,
        world=world or World(),
    )


def _base(url: str) -> str:
    """Refused addresses are not repeated: one may hold a password."""
    parts = split_url(url)
    if parts is None or parts.scheme not in {"https", "http"} or not parts.hostname or not url.isprintable():
        raise SourceError(REGISTRY_PREFIX, f"expected the address of a registry, such as {OFFICIAL_URL}")
    if names_user(url) or "?" in url or "#" in url:
        raise SourceError(
            REGISTRY_PREFIX, "an address is shown and stored: it may hold no login, `?` or `#`; use --header"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _list_url(base: str) -> str:
    last = base.rpartition("/")[2]
    if last == "servers":
        return base
    return f"{base}/servers" if last in {"v0", "v0.1"} else f"{base}/v0.1/servers"


def _namespace(base: str) -> str:
    parts = split_url(base)
    host = parts.hostname if parts else None
    return OFFICIAL_NAMESPACE if f"{base}/".startswith(f"{OFFICIAL_URL}/") or not host else agent_id(host)


def _checked_time(since: str) -> str:
    try:
        time = datetime.fromisoformat(since)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise SourceError("since", f"expected a time such as 2026-11-21T08:00:00Z, found {since[:40]!r}")
    return time.isoformat().replace("+00:00", "Z")
