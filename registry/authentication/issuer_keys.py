"""An issuer's public keys, kept while they are fresh, and fetched anew with measure.

Tokens are sent by anybody, so what they say must not make us hammer the issuer: between two fetches lies a time.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from waygraph.registry.errors import IssuerUnavailable

if TYPE_CHECKING:
    import jwt

logger = logging.getLogger(__name__)

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}
ALGORITHMS = frozenset({*_RSA, *_CURVES.values()})
"""Asymmetric ones alone. With HS256 whoever knows the public key could sign, with `none` anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyingKey:
    """A public key of the issuer, and the algorithms whose signatures it may check."""

    kid: str | None
    algorithms: frozenset[str]
    key: "jwt.PyJWK"


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys as they were fetched, at a time of the clock."""

    keys: tuple[VerifyingKey, ...]
    at_s: float

    def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """The key of this id that may check such a signature; without an id the only one that may."""
        fitting = [each for each in self.keys if algorithm in each.algorithms and kid in (None, each.kid)]
        return fitting[0] if len(fitting) == 1 or (fitting and kid is not None) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds: keys are fresh for `lifetime_s`, usable for `stale_s`, and fetched every `refetch_s` at most."""

    lifetime_s: float
    stale_s: float
    refetch_s: float


class IssuerKeys:
    """The keys of one issuer. Threads share it: one fetches, the others use what is held, if that will do.

    `fetch` gives a JSON Web Key Set or raises IssuerUnavailable; `clock` tells seconds that never run back.
    """

    def __init__(
        self,
        fetch: Callable[[], Mapping[str, object]],
        host: str,
        patience: Patience,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch, self._host, self._patience, self._clock = fetch, host, patience, clock
        self._held: KeySet | None = None
        self._next_fetch_s = float("-inf")
        self._trouble = ""
        self._lock = Lock()

    def at_hand(self) -> KeySet | None:
        """The keys that may be used at once; None if the issuer should be asked first."""
        held = self._held
        return held if held and not self._too_old(held) and not self._is_due(held) else None

    def find(self, kid: str | None, algorithm: str) -> tuple[KeySet, VerifyingKey] | None:
        """The key for a token, and the set it is from; None if the issuer publishes no such key.

        Asks the issuer where it must and may. Raises IssuerUnavailable if that cannot be told without it.
        """
        held = self._held
        is_needed = held is None or self._too_old(held) or held.find(kid, algorithm) is None
        is_due = held is not None and self._is_due(held)
        # While the issuer does not answer one waits for it; the others are told what came of the last try.
        if (is_needed or is_due) and self._lock.acquire(blocking=is_needed and not self._trouble):
            try:
                self._renew(held)
            finally:
                self._lock.release()
        return self._found(kid, algorithm)

    def _found(self, kid: str | None, algorithm: str) -> tuple[KeySet, VerifyingKey] | None:
        held = self._held
        if held is None or self._too_old(held):
            raise IssuerUnavailable(self._host, self._trouble)
        key = held.find(kid, algorithm)
        if key is None and self._trouble:
            raise IssuerUnavailable(self._host, self._trouble)
        return (held, key) if key else None

    def _renew(self, seen: KeySet | None) -> None:
        """Fetches the keys, if no other thread has since `seen`, and none did just now. Keeps them if that fails."""
        if self._held is not seen or self._clock() < self._next_fetch_s:
            return
        try:
            self._held, self._trouble = KeySet(self._fetched(), self._clock()), ""
        except IssuerUnavailable as exc:
            self._trouble = exc.reason
            logger.warning("keys of tokens were not renewed: %s", exc)
        finally:
            self._next_fetch_s = self._clock() + self._patience.refetch_s

    def _fetched(self) -> tuple[VerifyingKey, ...]:
        keys = verifying_keys(self._fetch())
        if not keys:
            raise IssuerUnavailable(self._host, "publishes no public key of RSA, EC or Ed25519 that may check tokens")
        return keys

    def _is_due(self, held: KeySet) -> bool:
        """Whether keys that may be used should be renewed, and nobody is about it."""
        now_s = self._clock()
        return now_s - held.at_s > self._patience.lifetime_s and now_s >= self._next_fetch_s and not self._lock.locked()

    def _too_old(self, held: KeySet) -> bool:
        return self._clock() - held.at_s > max(self._patience.stale_s, self._patience.lifetime_s)


def verifying_keys(document: Mapping[str, object]) -> tuple[VerifyingKey, ...]:
    """The public keys of a JSON Web Key Set that may check signatures; others are left out, as RFC 7517, 5 asks."""
    listed = document.get("keys")
    found = (_verifying_key(each) for each in (listed if isinstance(listed, list) else []))
    return tuple(key for key in found if key is not None)


def _verifying_key(described: object) -> VerifyingKey | None:
    import jwt

    if not isinstance(described, dict) or not _is_for_checking(described):
        return None
    algorithms = _algorithms(described)
    if not algorithms:
        return None
    try:
        key = jwt.PyJWK(described, min(algorithms))
    except (jwt.PyJWTError, ValueError, TypeError) as exc:
        logger.warning("a key of the issuer is left out, since it cannot be read (%s)", type(exc).__name__)
        return None
    return VerifyingKey(kid=described.get("kid"), algorithms=algorithms, key=key)


def _is_for_checking(described: Mapping[str, object]) -> bool:
    """A public key (RFC 7518, 6: a private one has `d`), with an id that is a text, not for encryption."""
    operations = described.get("key_ops", ["verify"])
    return (
        "d" not in described
        and isinstance(described.get("kid", ""), str)
        and described.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
    )


def _algorithms(described: Mapping[str, object]) -> frozenset[str]:
    """Those that fit the kind of the key, or of them the one that it is bound to."""
    curve = _CURVES.get(str(described.get("crv")))
    fitting = {
        "RSA": frozenset(_RSA),
        "EC": frozenset({curve} if curve and curve != "EdDSA" else ()),
        "OKP": frozenset({curve} if curve == "EdDSA" else ()),
    }.get(str(described.get("kty")), frozenset[str]())
    bound = described.get("alg")
    return fitting if bound is None else fitting & {str(bound)}
