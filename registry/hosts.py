"""What a URL says of where it leads: its parts, a user in it, and whether its host is this machine."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, unquote, urlsplit

_NAT64 = ip_network("64:ff9b::/96")
"""Stands for IPv4 addresses by their last 32 bits (RFC 6052)."""


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


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, also where it stands in for one of IPv4."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        translated = IPv4Address(int(parsed) & 0xFFFF_FFFF) if parsed in _NAT64 else None
        parsed = parsed.ipv4_mapped or parsed.sixtofour or translated or parsed
    return parsed.is_global and not parsed.is_multicast
