"""What people call a source: the host whose config it is, a repository, a server's address, or the end of a path."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from urllib.parse import urlsplit

from waygraph.ingest.hosts.hosts import HOSTS, Host

_PROGRAM_FOLDERS = {"{codex}": ".codex", "{zed}": "zed"}
"""How the folders that these programs have to themselves are called; what stands before them differs by system."""
_SHARED_SERVERS = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
"""Where an owner and a repository tell more than the server."""


def titles_of(sources: Iterable[str]) -> dict[str, str]:
    """Return the title of each source by its name. Titles that differ by case at most are followed by the names."""
    titles = {source: title_of(source) for source in sources}
    counts = Counter(map(str.casefold, titles.values()))
    return {name: title if counts[title.casefold()] == 1 else f"{title}, {name}" for name, title in titles.items()}


def title_of(source: str) -> str:
    """Return what people call the source of this name; where nothing better is known, the name itself."""
    if "://" in source:
        try:
            url = urlsplit(source)
        except ValueError:  # a name may be anything
            return source
        server, words = url.hostname or source, url.path.removesuffix("/").removesuffix(".git").split("/")
        return "/".join([server, *words[1:3]]) if server in _SHARED_SERVERS else server
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
