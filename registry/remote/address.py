"""What names a service: a URL without secrets, and the key that is shown to it."""

from dataclasses import dataclass

from waygraph.registry.http.addresses import is_loopback, names_user, split_url
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.store import SERVICE_SCHEMES

_NAMED = "A service is named like https://host, http://localhost:8080 or https://host/path."
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
            raise InvalidSetting(f"this is no URL of a service. {_NAMED}")
        return cls(
            url=f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}",
            is_encrypted=parts.scheme == "https",
            is_local=is_loopback(parts.hostname),
        )


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
