"""What a URL says of where it leads: its parts, a user in it, and from how far its host can be reached."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
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
_HOLDS_IPV4 = _WITHIN_A_SITE[:3]
"""Those that end in an address of IPv4."""
_METADATA = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",
            "fe80::/10",
            "fd00:ec2::/32",  # AWS
            "fd20:ce::254/128",  # Google
            "fd00:42::42/128",  # Scaleway
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure
            "192.0.0.192/32",  # Oracle
        ),
    )
)
"""Link-local, and what clouds answer their machines at: with credentials, to whoever asks."""
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


def written_address(host: str) -> str:
    """The IP address as which a host is written, also in the older forms `0x7f.1` and `2130706433`; empty: a name."""
    with suppress(ValueError):
        return str(ip_address(host))
    with suppress(OSError, UnicodeError):
        return socket.inet_ntoa(socket.inet_aton(host))
    return ""


class Reach(IntEnum):
    """From how far an address can be reached. The nearer, the more harm a request does that somebody else chose."""

    METADATA = 0
    MACHINE = 1
    NETWORK = 2
    INTERNET = 3


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, also where it stands in for one of IPv4."""
    return reach_of(address) is Reach.INTERNET


def reach_of(address: str) -> Reach:
    """Of an IP address, or of the nearest that it stands for; of what is none, METADATA."""
    try:
        ip = ip_address(address)
    except ValueError:
        return Reach.METADATA
    return min(map(_reach, _reached_addresses(ip)))


def _reach(address: IPv4Address | IPv6Address) -> Reach:
    if any(address in each for each in _METADATA):
        return Reach.METADATA
    if address.is_loopback or address.is_unspecified:
        return Reach.MACHINE
    within = any(address in site for site in _WITHIN_A_SITE)
    return Reach.INTERNET if address.is_global and not address.is_multicast and not within else Reach.NETWORK


def _reached_addresses(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """The address, or that of IPv4 for which it stands; and the one through which it is reached."""
    if isinstance(address, IPv4Address):
        yield address
        return
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    yield address.ipv4_mapped or address.sixtofour or (last if address in _NAT64 else address)
    if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP or any(address in each for each in _HOLDS_IPV4):
        yield last
    if address in _HOLDS_IPV4[-1]:
        yield IPv4Address((int(address) >> 64 & 0xFFFF) << 16 | int(address) >> 40 & 0xFFFF)  # RFC 6052, 2.2


def public_address(public_url: str, request_url: str) -> str:
    """Where a person reaches a service with a browser, without a slash at its end; empty if that is not known.

    `public_url`: what the operator set. `request_url`: where a request was sent, as its sender says: it
    counts on this machine alone.
    """
    url = split_url(request_url)
    here = request_url if url is not None and is_loopback(url.hostname or "") else ""
    return (public_url or here).rstrip("/")
