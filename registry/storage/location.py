"""What the location of a registry names: a file, memory, a graph server or a service."""

import os
from dataclasses import dataclass
from pathlib import Path

from waygraph.registry.http.addresses import is_loopback, names_user, split_url
from waygraph.registry.model.errors import InvalidSetting, NeedsRegistry, needs_extra
from waygraph.registry.model.files import as_written, lock_of, queue_of
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.store import MEMORY, Store

SERVICE_SCHEMES = ("http", "https")
SERVER_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
_SERVER_URLS = ", ".join(f"{scheme}://" for scheme in SERVER_SCHEMES)
_URL_FORMS = "A service is named like https://host, http://localhost:8080 or https://host/path."
_NO_SECRETS = (
    "a URL is shown and logged, so it may not hold a user, password, key or anything after `?` or `#`. "
    "Set WAYGRAPH_API_KEY."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """`url` has no slash at its end; as people name it, too."""

    url: str
    is_encrypted: bool
    is_local: bool
    """Whether it is this machine's own."""

    @classmethod
    def parse(cls, location: str) -> "ServiceAddress":
        """Raises InvalidSetting, whose message repeats nothing of what it refuses: that may be a password."""
        if names_user(location) or "?" in location or "#" in location:
            raise InvalidSetting(_NO_SECRETS)
        parts = split_url(location)
        plain = location.isascii() and location.isprintable() and " " not in location
        if parts is None or parts.scheme not in SERVICE_SCHEMES or not parts.hostname or not plain:
            raise InvalidSetting(f"this is no URL of a service. {_URL_FORMS}")
        return cls(
            url=f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}",
            is_encrypted=parts.scheme == "https",
            is_local=is_loopback(parts.hostname),
        )


def named_place(location: object) -> str:
    """Raises InvalidSetting for what names no place."""
    text = os.fspath(location) if isinstance(location, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise InvalidSetting(f"a registry is named by a text or a path, not by {type(location).__name__}")
    return text


def is_server(location: object) -> bool:
    """Whether a location names a graph server, not a file."""
    return _scheme(location) in SERVER_SCHEMES


def is_service(location: object) -> bool:
    """Whether a location names a service, which keeps a registry of its own."""
    return _scheme(location) in SERVICE_SCHEMES


def is_part_of(path: Path, location: object) -> bool:
    """Whether a file is the registry of this place, its lock or queue, or in its index."""
    if is_server(location) or is_service(location) or location == MEMORY:
        return False
    from waygraph.registry.index.local.file import folder_of

    home, file = as_written(str(location)).resolve(), as_written(path).resolve()
    index = folder_of(home)
    return file in (home, lock_of(home), queue_of(home), index) or index in file.parents


def refuse_service(location: object) -> None:
    """Raises NeedsRegistry."""
    if is_service(location):
        raise NeedsRegistry(ServiceAddress.parse(str(location)).url)


def _scheme(location: object) -> str:
    """In small letters; empty for what is no URL."""
    scheme, colon, _ = str(location).partition("://")
    return scheme.lower() if colon else ""


def open_store(location: object, settings: Settings) -> Store:
    """The store of a location; nothing is read or written yet.

    Raises InvalidSetting for a URL or path that names none, NeedsRegistry for one of a service, MissingExtra for a
    server without the driver.
    """
    refuse_service(location)
    if is_server(location):
        with needs_extra("a registry on Neo4j", "neo4j"):
            from waygraph.registry.storage.server import ServerStore

        return ServerStore.at(str(location), settings)
    from waygraph.registry.storage.embedded import EmbeddedStore

    if "://" in str(location):
        raise InvalidSetting(
            f"a registry is a file, {MEMORY}, a service (http://, https://) or a server ({_SERVER_URLS})"
        )
    return EmbeddedStore(None if str(location) == MEMORY else _file(str(location)), settings)


def _file(location: str) -> Path:
    """Where it is, whatever the working directory becomes. Raises InvalidSetting for what names no file."""
    try:
        path = as_written(location).resolve()
    except (OSError, ValueError, RuntimeError) as exc:  # a NUL, links that lead in a circle
        raise InvalidSetting(f"{location!r} cannot be the file of a registry: {exc}") from exc
    if not path.name:
        raise InvalidSetting(f"{location!r} cannot be the file of a registry: it is the root folder")
    return path


def place_of(location: object, settings: Settings) -> str:
    """The one text for a place, however it was written: that of its store. Raises as `open_store`."""
    if is_service(location):
        return ServiceAddress.parse(str(location)).url
    if is_server(location):
        from waygraph.registry.graph.neo4j_address import ServerLocation

        return ServerLocation.parse(str(location), settings.neo4j_database).place
    return MEMORY if str(location) == MEMORY else str(_file(str(location)))


def api_key(address: ServiceAddress, settings: Settings) -> str:
    """The key to show at this address; empty: none. Raises InvalidSetting for one that would be seen by others."""
    key = settings.api_key
    if not key:
        return ""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidSetting("WAYGRAPH_API_KEY holds a space, a line break or another character that no key has")
    if not (address.is_encrypted or address.is_local or settings.remote_plain_http):
        raise InvalidSetting(
            f"{address.url} is another machine, and on the way there others can read the key: use https://, or set "
            "WAYGRAPH_REMOTE_PLAIN_HTTP=true where the network is yours alone."
        )
    return key
