"""What people call a source: the host whose config it is, a repository, a server's address, or the end of a path."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath
from urllib.parse import urlsplit

from waygraph.ingest.hosts.hosts import HOSTS, Host
from waygraph.registry.model.changes import SourceSummary

_PROGRAM_FOLDERS = {"{codex}": ".codex", "{zed}": "zed"}
"""How the folders that these programs have to themselves are called; what stands before them differs by system."""
_SHARED_SERVERS = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
"""Where an owner and a repository tell more than the server."""


def with_titles(sources: Iterable[SourceSummary]) -> list[SourceSummary]:
    """Return the sources with their titles, all different: where two would have the same the name follows."""
    pairs = [(source, title_of(source.name)) for source in sources]
    counts = Counter(title for _, title in pairs)
    return [
        replace(source, title=title if counts[title] == 1 else f"{title}, {source.name}") for source, title in pairs
    ]


def title_of(source: str) -> str:
    """Return what people call the source of this name; where nothing better is known, the name itself."""
    if "://" in source:
        url = urlsplit(source)
        server = url.hostname or source
        return "/".join([server, *url.path.strip("/").split("/")[:2]]) if server in _SHARED_SERVERS else server
    path = PurePath(source.replace("\\", "/"))
    parts = tuple(map(str.casefold, path.parts))
    for host in HOSTS.values():
        if path.parent.name == "hosts" and re.fullmatch(rf"{host.id}(-[0-9a-f]{{12}})?\.json", path.name):
            return host.name  # our own file of the servers that were taken over from it
        if any(parts[-len(tail) :] == tail for tail in _tails(host)):
            return host.name
    return "/".join(path.parts[-2:]) if path.is_absolute() else source


def _tails(host: Host) -> Iterator[tuple[str, ...]]:
    """How the paths of its configs end."""
    for place in filter(None, (host.place, host.settings, host.project)):
        folder, *rest = PurePath(place).parts
        yield tuple(map(str.casefold, filter(None, (_PROGRAM_FOLDERS.get(folder, ""), *rest))))
