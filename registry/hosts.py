"""What a URL says of where it leads: its parts, a user in it, and whether its host is this machine."""

from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit


def is_loopback(host: str) -> bool:
    """Of a name or an address, as a URL has it or without its brackets."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def names_user(location: str) -> bool:
    """Whether a URL holds a user or a password, however it is spelled."""
    # Looked for in the whole: with `/`, `#` or `?` in a password the host ends before its `@`.
    return "@" in unquote(location)


def split_url(location: str) -> SplitResult | None:
    """None for what is no URL, such as one with a port that is no number."""
    try:
        parts = urlsplit(location)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None
