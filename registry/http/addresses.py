"""What a URL says of where it leads: its parts, a user in it, and whether its host is this machine."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, unquote, urlsplit

_NAT64 = ip_network("64:ff9b::/96")
"""Stands for IPv4 addresses by their last 32 bits (RFC 6052)."""
_WITHIN_A_SITE = tuple(
    map(
        ip_network,
        ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "fec0::/10", "3fff::/20", "5f00::/16", "192.88.99.0/24"),
    )
)
"""Which Python calls global: IPv4 as written of old or translated (RFC 2765, RFC 8215), addresses of a site, of
documentation (RFC 9637), of segments (RFC 9602) and of relays that are no more (RFC 7526)."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""Before the IPv4 address in the last 64 bits of a host that is reached through one (RFC 5214)."""


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


def is_address(host: str) -> bool:
    """Whether a host is written as an IP address, and not as a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, also where it stands in for one of IPv4."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if any(parsed in site for site in _WITHIN_A_SITE):
        return False
    return all(each.is_global and not each.is_multicast for each in _reached_addresses(parsed))


def _reached_addresses(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """The address, or that of IPv4 for which it stands; and the one through which it is reached."""
    if isinstance(address, IPv4Address):
        yield address
        return
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    yield address.ipv4_mapped or address.sixtofour or (last if address in _NAT64 else address)
    if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield last
