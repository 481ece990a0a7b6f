"""From what a request shows to who calls, and how often one caller may ask."""

import hmac
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import TYPE_CHECKING

from cachetools import LRUCache

from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.model.errors import InvalidSetting, NotAuthenticated, TooManyRequests
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.access.api_keys import ApiKey, KeyFile
    from waygraph.registry.access.oidc import OidcTokens


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class RateLimit:
    """At most `burst` requests at once, and `per_minute` in the long run, of each caller; 0 a minute: no limit.

    It counts in this process alone. So many callers are remembered (`max_callers`); then the one that asked longest
    ago is forgotten, whose bucket is most likely full again. `clock` tells seconds that never run back. Threads may
    share it. Raises InvalidSetting for less than one request at once, or a rate that is no number ≥ 0.
    """

    def __init__(
        self, per_minute: float, burst: int, clock: Callable[[], float] = time.monotonic, *, max_callers: int = 10_000
    ) -> None:
        if not math.isfinite(per_minute) or per_minute < 0 or burst < 1 or max_callers < 1:
            raise InvalidSetting(
                f"no limit can be made of {per_minute:g} requests a minute, {burst} at once, {max_callers} callers: "
                "expected ≥ 0, ≥ 1 and ≥ 1"
            )
        self._per_s, self._burst, self._clock = per_minute / 60.0, burst, clock
        self._buckets = LRUCache[str, _Bucket](max_callers)
        self._lock = Lock()

    def take(self, caller_id: str) -> None:
        """Counts one request. Raises TooManyRequests, and counts nothing, if there is none left."""
        if not self._per_s:
            return
        with self._lock:
            now_s, burst = self._clock(), float(self._burst)
            bucket = self._buckets.get(caller_id) or _Bucket(burst, now_s)
            bucket.tokens, bucket.at_s = min(bucket.tokens + (now_s - bucket.at_s) * self._per_s, burst), now_s
            self._buckets[caller_id] = bucket
            if bucket.tokens < 1.0:
                raise TooManyRequests((1.0 - bucket.tokens) / self._per_s)
            bucket.tokens -= 1.0

    def __len__(self) -> int:
        """How many callers are remembered."""
        return len(self._buckets)


class FailureLimit:
    """How often one address may call without being known: guessing and noise are slowed.

    A good key or token is never refused for what others at its address did, such as behind a proxy: what guesses in
    vain gets no answer, and keys are too long to be guessed in time. Of IPv6 a whole /64 is one client.
    """

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit

    def count_failure(self, address: str) -> None:
        """Counts one failure. Raises TooManyRequests for one too many."""
        self._limit.take(_client(address))


@lru_cache(maxsize=1024)
def _client(address: str) -> str:
    """The address, or of IPv6 the network that one client has; another text as it is."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or f"{IPv6Address(int(ip) >> 64 << 64)}/64")
    return str(ip)


HOW = "send `Authorization: Bearer …` with an API key or a token, or `X-API-Key: …`"


class Authenticator:
    """Says who calls. Threads share it.

    `keys` are looked at on every call, so one that is revoked counts no more at once; `tokens` None: none are taken.
    Every refusal is a NotAuthenticated that quotes nothing of what was shown. KeysUnusable and IssuerUnavailable say
    that it cannot be told now: never take them for somebody who may call.
    """

    def __init__(self, keys: "KeyFile", tokens: "OidcTokens | None" = None, *, local: str = "") -> None:
        """`local`: who shows this text is who started this process, and may do everything."""
        self.keys, self._tokens, self._local = keys, tokens, local

    def forget_local(self) -> None:
        """Nobody is any more who started this process."""
        self._local = ""

    @classmethod
    def of(cls, settings: Settings, *, clock: Callable[[], float] = time.time) -> "Authenticator":
        """As the settings say. Raises InvalidSetting, and KeysUnusable for a keys file that is damaged already.

        `clock` tells seconds since 1970, by which keys expire.
        """
        keys = key_file(settings, clock=clock)
        keys.list()
        if not settings.oidc_issuer:
            return cls(keys)
        from waygraph.registry.access.oidc import OidcTokens

        return cls(keys, OidcTokens.of(settings))

    def caller(self, authorization: str | None, api_key: str | None) -> Caller:
        """Who shows these headers: `Authorization` and `X-API-Key`, of which one is to be sent.

        May wait for the issuer of tokens, so an event loop asks `known` first.
        """
        text, tokens = self._credential_of(authorization, api_key)
        return tokens.caller(text) if tokens else self._holder(text)

    def known_caller(self, authorization: str | None, api_key: str | None) -> Caller | None:
        """The same without waiting; None if `caller` has to ask the issuer."""
        text, tokens = self._credential_of(authorization, api_key)
        return tokens.known_caller(text) if tokens else self._holder(text)

    def _credential_of(self, authorization: str | None, api_key: str | None) -> tuple[str, "OidcTokens | None"]:
        """The text, and who reads it: None for a key. Raises NotAuthenticated if none is sent, or two are."""
        if authorization is not None and api_key is not None:
            raise NotAuthenticated(f"two headers say who calls; {HOW}")
        if api_key is not None:
            return api_key.strip(), None
        if not (text := bearer_token(authorization or "")):
            raise NotAuthenticated(f"nothing says who calls; {HOW}")
        # No JSON Web Token begins so: it begins with a JSON object in base64, `ey…`.
        return text, None if text.startswith("wg_") else self._tokens

    def _holder(self, text: str) -> Caller:
        if self._local and hmac.compare_digest(text.encode(), self._local.encode()):
            return LOCAL
        if (key := self.keys.find(text)) is None:
            raise NotAuthenticated("the API key is not known, has expired or was revoked")
        return caller_with(key)


def authentication_of(settings: Settings) -> Authenticator | None:
    """Who says who calls; None if nobody is asked: there is no keys file, none is named, and no issuer.

    A keys file that is named (`keys_file`) need not be there yet: until it is, no key is good.
    Raises InvalidSetting and KeysUnusable.
    """
    if settings.oidc_audience and not settings.oidc_issuer:
        raise InvalidSetting("WAYGRAPH_OIDC_AUDIENCE needs WAYGRAPH_OIDC_ISSUER: whose tokens are meant")
    needs_one = settings.keys_file or settings.oidc_issuer or key_file(settings).exists()
    return Authenticator.of(settings) if needs_one else None


def key_file(settings: Settings, *, clock: Callable[[], float] = time.time) -> "KeyFile":
    from waygraph.registry.access.api_keys import KeyFile

    return KeyFile(settings.keys_path, lock_timeout_s=settings.write_timeout_s, clock=clock)


def caller_with(key: "ApiKey") -> Caller:
    """The caller that a good key names."""
    return Caller(
        id=f"key:{key.id}",
        name=key.name,
        scopes=frozenset(key.scopes),
        principal=None if key.everything else Principal(groups=key.groups),
        toolset=key.toolset,
    )


def bearer_token(authorization: str) -> str:
    """Of the header (RFC 6750, 2.1); empty: it holds none."""
    scheme, _, text = authorization.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
