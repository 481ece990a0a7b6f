"""What an OIDC issuer publishes: its discovery document and its keys, fetched within limits of time and size.

Addresses are https, or http on this machine. Redirects are not followed: what stands at the address counts.
"""

import json
import time
from collections.abc import Mapping

import httpx2

from waygraph.registry.errors import InvalidSetting, IssuerUnavailable
from waygraph.registry.machine.coding import IDENTITY, coding_of
from waygraph.registry.machine.hosts import is_loopback
from waygraph.registry.machine.proxies import http_client
from waygraph.registry.machine.whole_body import TooMuch, TooSlow, whole_body
from waygraph.registry.machine.whole_exchange import CutOff
from waygraph.registry.settings import Settings

DISCOVERY = "/.well-known/openid-configuration"

type Document = Mapping[str, object]


class IssuerDocuments:
    """The documents of one issuer. Raises InvalidSetting for an address that is none, or is not safe."""

    def __init__(self, issuer: str, jwks_url: str, *, timeout_s: float, max_bytes: int) -> None:
        self._issuer, self._timeout_s, self._max_bytes = issuer, timeout_s, max_bytes
        self._discovery = _address("WAYGRAPH_OIDC_ISSUER", f"{issuer.rstrip('/')}{DISCOVERY}")
        self._jwks = _address("WAYGRAPH_OIDC_JWKS_URL", jwks_url) if jwks_url else None

    @classmethod
    def of(cls, settings: Settings) -> "IssuerDocuments":
        return cls(
            settings.oidc_issuer,
            settings.oidc_jwks_url,
            timeout_s=settings.oidc_timeout_s,
            max_bytes=settings.oidc_max_document_bytes,
        )

    @property
    def host(self) -> str:
        return (self._jwks or self._discovery).host

    def keys(self) -> Document:
        """The issuer's JSON Web Key Set (RFC 7517), its keys unchecked.

        Waits at most about `timeout_s` for each of two documents. Raises IssuerUnavailable.
        """
        return self._fetched(self._jwks or self._discovered())

    def _discovered(self) -> httpx2.URL:
        """Where the keys are, by OpenID Connect Discovery 1.0, section 4."""
        document = self._fetched(self._discovery)
        if document.get("issuer") != self._issuer:
            # Section 4.3: a document of another issuer must not be taken.
            raise self._trouble("publishes a discovery document of another issuer; set oidc_issuer just as it has it")
        try:
            return _address("its jwks_uri", str(document.get("jwks_uri", "")))
        except InvalidSetting as exc:
            raise self._trouble(f"publishes no usable address of keys: {exc}") from None

    def _fetched(self, url: httpx2.URL) -> Document:
        cut_off = CutOff(self._timeout_s)
        try:
            with cut_off:
                parsed = json.loads(self._content(url, cut_off))
        except (httpx2.HTTPError, OSError) as exc:
            if cut_off.is_over or isinstance(exc, httpx2.TimeoutException):
                raise self._too_slow() from exc
            raise self._trouble(f"cannot be reached: {exc or type(exc).__name__}") from exc
        except (ValueError, RecursionError):  # of a body that was cut off, too
            raise self._too_slow() if cut_off.is_over else self._trouble("answers with what is no JSON") from None
        if not isinstance(parsed, dict):
            raise self._trouble("answers with JSON that is no object")
        return parsed

    def _content(self, url: httpx2.URL, cut_off: CutOff) -> bytes:
        deadline_s = time.monotonic() + self._timeout_s
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        with (
            http_client(httpx2.Client, timeout=self._timeout_s, follow_redirects=False, headers=headers) as client,
            client.stream("GET", url, extensions={"trace": cut_off.seen}) as response,
        ):
            if response.status_code != 200:
                moved = "; redirects are not followed" if response.is_redirect else ""
                raise self._trouble(f"answers {response.status_code}{moved}")
            if coding_of(response) != IDENTITY:
                raise self._trouble("answers with a compressed document, which was not asked for")
            return self._read(response, deadline_s)

    def _read(self, response: httpx2.Response, deadline_s: float) -> bytes:
        """The body as it came."""
        try:
            return whole_body(response.iter_raw(), most_bytes=self._max_bytes, ends_at=deadline_s, clock=time.monotonic)
        except TooMuch:
            raise self._trouble(f"answers with more than {self._max_bytes} bytes") from None
        except TooSlow:
            raise self._too_slow() from None

    def _too_slow(self) -> IssuerUnavailable:
        return self._trouble(f"did not answer in full within {self._timeout_s:g} s")

    def _trouble(self, reason: str) -> IssuerUnavailable:
        return IssuerUnavailable(self.host, reason)


def _address(what: str, text: str) -> httpx2.URL:
    """Raises InvalidSetting, which quotes no address: one may hold a password."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        raise InvalidSetting(f"{what} is not an address") from None
    if url.scheme not in {"https", "http"} or not url.host or url.userinfo or url.fragment:
        raise InvalidSetting(f"{what} must be an address such as https://login.example.com, without password and #")
    if url.scheme == "http" and not is_loopback(url.host):
        raise InvalidSetting(f"{what} must begin with https://, since who answers it decides who may call")
    return url
