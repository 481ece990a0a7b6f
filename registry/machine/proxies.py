"""Proxies of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY), as our HTTP clients take them."""

from typing import Any

import httpx2

from waygraph.registry.errors import InvalidSetting

PAST_PROXIES = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))
"""A client's `mounts`: no proxy stands between a machine and itself."""


class UnusableProxy(InvalidSetting):
    """The environment names a proxy that no client can use."""


def http_client[C: (httpx2.Client, httpx2.AsyncClient)](kind: type[C], **options: Any) -> C:
    """A client of the library, which takes `options`; for this machine it uses no proxy.

    Raises UnusableProxy, which repeats no address: it may hold a password.
    """
    try:
        return kind(mounts=PAST_PROXIES, **options)
    except (httpx2.InvalidURL, ValueError) as exc:
        raise UnusableProxy(
            "the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names, or a host in NO_PROXY, is no address: expected "
            "one such as http://proxy:3128 or socks5://proxy:1080"
        ) from exc


def check_proxies() -> None:
    """Raises UnusableProxy."""
    http_client(httpx2.Client).close()
