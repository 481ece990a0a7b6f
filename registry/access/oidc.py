"""Bearer tokens of an OIDC issuer: JSON Web Tokens (RFC 7519), checked as RFC 8725 and RFC 9068 advise."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any, NoReturn

import httpx2
import jwt
from cachetools import FIFOCache

from waygraph.registry.access.api_keys import is_plain
from waygraph.registry.access.visibility import SCOPES, Caller, Scope
from waygraph.registry.http.addresses import Reach, is_loopback
from waygraph.registry.http.client import TooMuch, TooSlow, Undecodable, decode_body, http_client, whole_body
from waygraph.registry.http.guard import Guard
from waygraph.registry.model.errors import InvalidSetting, IssuerUnavailable, NotAuthenticated, UpstreamRefused
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.numbers import read_number
from waygraph.registry.model.settings import Settings

# What an OIDC issuer publishes: its discovery document and its keys, fetched within limits of time and size.
#
# Addresses are https, or http on this machine. Redirects are not followed: what stands at the address counts.


DISCOVERY = "/.well-known/openid-configuration"
TIMEOUT_S = 5.0
"""For each document."""
MAX_DOCUMENT_BYTES = 1024 * 1024

type Document = Mapping[str, object]


class IssuerDocuments:
    """The documents of one issuer. Raises InvalidSetting for an address that is none, or is not safe."""

    def __init__(
        self, issuer: str, jwks_url: str, *, timeout_s: float = TIMEOUT_S, max_bytes: int = MAX_DOCUMENT_BYTES
    ) -> None:
        self._issuer, self._timeout_s, self._max_bytes = issuer, timeout_s, max_bytes
        self._discovery = _address("WAYGRAPH_OIDC_ISSUER", f"{issuer.rstrip('/')}{DISCOVERY}")
        self._jwks = _address("WAYGRAPH_OIDC_JWKS_URL", jwks_url) if jwks_url else None

    @classmethod
    def of(cls, settings: Settings, *, timeout_s: float = TIMEOUT_S) -> "IssuerDocuments":
        return cls(settings.oidc_issuer, settings.oidc_jwks_url, timeout_s=timeout_s)

    @property
    def host(self) -> str:
        return (self._jwks or self._discovery).host

    def keys(self) -> Document:
        """The issuer's JSON Web Key Set (RFC 7517), its keys unchecked.

        Waits at most about `timeout_s` for each of two documents. Raises IssuerUnavailable.
        """
        guard = Guard(self._jwks or self._discovery, beyond=Reach.MACHINE)
        return self._fetch(self._jwks or self._address_in(self._discover(guard), "jwks_uri"), guard)

    def login_page(self) -> httpx2.URL:
        """Where a person logs in (RFC 6749, 3.1). Waits and raises as `keys`."""
        return self._address_in(self._discover(Guard(self._discovery, beyond=Reach.MACHINE)), "authorization_endpoint")

    def redeem_code(self, form: Mapping[str, str], iss: str | None) -> Document:
        """The answer to a request for a token (RFC 6749, 4.1.3). `iss`: what came with the code. Waits and raises as
        `keys`; NotAuthenticated for a code of another issuer, or without the `iss` that this one sends (RFC 9207, 2.4).
        """
        guard = Guard(self._discovery, beyond=Reach.MACHINE)
        document = self._discover(guard)
        names_itself = document.get("authorization_response_iss_parameter_supported") is True
        if iss != self._issuer and (iss is not None or names_itself):
            raise NotAuthenticated("the code that came back is not by this gateway's issuer")
        return self._fetch(self._address_in(document, "token_endpoint"), guard, form)

    def _discover(self, guard: Guard) -> Document:
        """By OpenID Connect Discovery 1.0, section 4."""
        document = self._fetch(self._discovery, guard)
        if document.get("issuer") != self._issuer:
            # Section 4.3: a document of another issuer must not be taken.
            raise self._trouble("publishes a discovery document of another issuer; set oidc_issuer just as it has it")
        return document

    def _address_in(self, document: Document, name: str) -> httpx2.URL:
        """Of an endpoint, or of the keys."""
        try:
            return _address(f"its {name}", str(document.get(name, "")))
        except InvalidSetting as exc:
            what = "keys" if name == "jwks_uri" else name
            raise self._trouble(f"publishes no usable address of {what}: {exc}") from None

    def _fetch(self, url: httpx2.URL, guard: Guard, form: Mapping[str, str] | None = None) -> Document:
        try:
            document = json.loads(self._content(url, guard, form))
        except UpstreamRefused as exc:
            raise self._trouble(f"cannot be asked: {exc.reason}") from None
        except Undecodable as exc:
            raise self._trouble(str(exc)) from None
        except TooMuch:
            raise self._trouble(f"answers with more than {self._max_bytes} bytes") from None
        except (TooSlow, httpx2.TimeoutException) as exc:
            raise self._trouble(f"did not answer in full within {self._timeout_s:g} s") from exc
        except (httpx2.HTTPError, OSError) as exc:
            raise self._trouble(f"cannot be reached: {exc or type(exc).__name__}") from exc
        except (ValueError, RecursionError):
            raise self._trouble("answers with what is no JSON") from None
        if not isinstance(document, dict):
            raise self._trouble("answers with JSON that is no object")
        return document

    def _content(self, url: httpx2.URL, guard: Guard, form: Mapping[str, str] | None) -> bytes:
        deadline_s = time.monotonic() + self._timeout_s
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        with (
            http_client(
                httpx2.Client, guard=guard, timeout=self._timeout_s, follow_redirects=False, headers=headers
            ) as client,
            client.stream("POST" if form else "GET", url, data=form) as response,
        ):
            if response.status_code != 200:
                redirect = "; redirects are not followed" if response.is_redirect else ""
                raise self._trouble(f"answers {response.status_code}{redirect}")
            decode_body(response)
            chunks = response.iter_raw()
            return whole_body(chunks, most_bytes=self._max_bytes, ends_at=deadline_s, clock=time.monotonic)

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


# An issuer's public keys, kept while they are fresh, and fetched anew with measure.
#
# Tokens are sent by anybody, so what they say must not make us hammer the issuer: between two fetches lies a time.


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
    key: jwt.PyJWK


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
    """Seconds: keys are fresh for `lifetime_s`, usable for `stale_s` while the issuer does not answer, and fetched
    every `refetch_s` at most, whatever tokens come.
    """

    lifetime_s: float = 600.0
    stale_s: float = 86_400.0
    refetch_s: float = 10.0


class IssuerKeys:
    """The keys of one issuer. Threads share it: one fetches, the others use what is held, if that will do.

    `fetch` gives a JSON Web Key Set or raises IssuerUnavailable; `clock` tells seconds that never run back.
    """

    # PyJWT's PyJWKClient cannot hold what this class does, even with a fetch of ours. Its set ends with its
    # lifetime although the issuer is down. Its cooldown begins with a success, so that rubbish hammers an issuer which
    # fails. All threads wait for one fetch, as none can look without fetching. It finds a key by `kid` alone: none for
    # a token without one, and not the one of two keys that fits the algorithm.

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
        keys = self._held
        return keys if keys and not self._too_old(keys) and not self._is_due(keys) else None

    def find(self, kid: str | None, algorithm: str) -> tuple[KeySet, VerifyingKey] | None:
        """The key for a token, and the set it is from; None if the issuer publishes no such key.

        Asks the issuer where it must and may. Raises IssuerUnavailable if that cannot be told without it.
        """
        keys = self._held
        is_needed = keys is None or self._too_old(keys) or keys.find(kid, algorithm) is None
        is_due = keys is not None and self._is_due(keys)
        # While the issuer does not answer one waits for it; the others are told what came of the last try.
        if (is_needed or is_due) and self._lock.acquire(blocking=is_needed and not self._trouble):
            try:
                self._renew(keys)
            finally:
                self._lock.release()
        return self._find_key(kid, algorithm)

    def _find_key(self, kid: str | None, algorithm: str) -> tuple[KeySet, VerifyingKey] | None:
        keys = self._held
        if keys is None or self._too_old(keys):
            raise IssuerUnavailable(self._host, self._trouble)
        key = keys.find(kid, algorithm)
        if key is None and self._trouble:
            raise IssuerUnavailable(self._host, self._trouble)
        return (keys, key) if key else None

    def _renew(self, keys: KeySet | None) -> None:
        """Fetches the keys, if no other thread has since `keys`, and none did just now. Keeps them if that fails."""
        if self._held is not keys or self._clock() < self._next_fetch_s:
            return
        try:
            if not (fresh := verifying_keys(self._fetch())):
                raise IssuerUnavailable(
                    self._host, "publishes no public key of RSA, EC or Ed25519 that may check tokens"
                )
            self._held, self._trouble = KeySet(fresh, self._clock()), ""
        except IssuerUnavailable as exc:
            self._trouble = exc.reason
            logger.warning("keys of tokens were not renewed: %s", exc)
        finally:
            self._next_fetch_s = self._clock() + self._patience.refetch_s

    def _is_due(self, keys: KeySet) -> bool:
        """Whether keys that may be used should be renewed, and nobody is about it."""
        now_s = self._clock()
        return now_s - keys.at_s > self._patience.lifetime_s and now_s >= self._next_fetch_s and not self._lock.locked()

    def _too_old(self, keys: KeySet) -> bool:
        return self._clock() - keys.at_s > max(self._patience.stale_s, self._patience.lifetime_s)


def verifying_keys(document: Mapping[str, object]) -> tuple[VerifyingKey, ...]:
    """The public keys of a JSON Web Key Set that may check signatures; others are left out, as RFC 7517, 5 asks."""
    rows = document.get("keys")
    keys = (_verifying_key(each) for each in (rows if isinstance(rows, list) else []))
    return tuple(key for key in keys if key is not None)


def _verifying_key(jwk: object) -> VerifyingKey | None:
    if not isinstance(jwk, dict) or not _is_for_checking(jwk):
        return None
    if not (algorithms := _algorithms(jwk)):
        return None
    try:
        key = jwt.PyJWK(jwk, min(algorithms))
    except (jwt.PyJWTError, ValueError, TypeError) as exc:
        logger.warning("a key of the issuer is left out, since it cannot be read (%s)", type(exc).__name__)
        return None
    return VerifyingKey(kid=jwk.get("kid"), algorithms=algorithms, key=key)


def _is_for_checking(jwk: Mapping[str, object]) -> bool:
    """A public key (RFC 7518, 6: a private one has `d`), with an id that is a text, not for encryption."""
    operations = jwk.get("key_ops", ["verify"])
    return (
        "d" not in jwk
        and isinstance(jwk.get("kid", ""), str)
        and jwk.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
    )


def _algorithms(jwk: Mapping[str, object]) -> frozenset[str]:
    """Those that fit the kind of the key, or of them the one that it is bound to."""
    curve = _CURVES.get(str(jwk.get("crv")))
    fitting = {
        "RSA": frozenset(_RSA),
        "EC": frozenset({curve} if curve and curve != "EdDSA" else ()),
        "OKP": frozenset({curve} if curve == "EdDSA" else ()),
    }.get(str(jwk.get("kty")), frozenset[str]())
    own = jwk.get("alg")
    return fitting if own is None else fitting & {str(own)}


type Claims = Mapping[str, Any]

_REASONS: dict[type[Exception], str] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidAudienceError: "it is meant for another audience",
    jwt.InvalidIssuerError: "it is of another issuer",
    jwt.InvalidSignatureError: "its signature is not the issuer's",
}
_NAMES = ("preferred_username", "email", "name", "client_id", "azp")
_REQUIRED_CLAIMS = ("exp", "iss", "aud", "sub")
LEEWAY_S = 30.0
"""Between the issuer's clock and ours."""
FAR_S = 2**53
"""Farther times are no numbers of a clock."""
MAX_SUBJECT_CHARS = 255
"""OpenID Connect Core 1.0, section 2."""


@dataclass(frozen=True, slots=True)
class _CheckedToken:
    """The caller of a token, until when, and the keys by which it was checked."""

    caller: Caller
    ends_s: float
    keys: KeySet


class OidcTokens:
    """Tokens to callers. Threads share it.

    A token that was found good is remembered by its hash until it expires or the issuer's keys are fetched anew.
    `clock` tells seconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        keys: IssuerKeys,
        *,
        max_chars: int = 16_384,
        cache_size: int = 1024,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises InvalidSetting without an audience: tokens for any other service of the issuer would do."""
        if not settings.oidc_audience:
            raise InvalidSetting("WAYGRAPH_OIDC_ISSUER needs WAYGRAPH_OIDC_AUDIENCE: what the tokens' `aud` names")
        self._settings, self._keys, self._max_chars, self._clock = settings, keys, max_chars, clock
        self._checked = FIFOCache[bytes, _CheckedToken](cache_size)
        self._lock = Lock()

    @classmethod
    def of(
        cls, settings: Settings, *, timeout_s: float = TIMEOUT_S, keys_clock: Callable[[], float] = time.monotonic
    ) -> "OidcTokens":
        """As the settings say; asks nobody yet. `timeout_s`: for each document of the issuer. `keys_clock`: as
        IssuerKeys'. Raises InvalidSetting.
        """
        documents = IssuerDocuments.of(settings, timeout_s=timeout_s)
        return cls(settings, IssuerKeys(documents.keys, documents.host, Patience(), keys_clock))

    def caller(self, token: str) -> Caller:
        """Whose token it is. May wait for the issuer.

        Raises NotAuthenticated, which quotes nothing of the token; IssuerUnavailable if the issuer must be asked
        and does not answer.
        """
        if caller := self.known_caller(token):
            return caller
        if (match := self._keys.find(*_header(token))) is None:
            raise _refusal("it is signed by a key that the issuer does not publish")
        return self._check(token, sha256(token.encode(errors="surrogatepass")).digest(), *match)

    def known_caller(self, token: str) -> Caller | None:
        """Whose token it is, without waiting; None if the issuer must be asked. Raises NotAuthenticated."""
        if len(token) > self._max_chars:
            raise _refusal(f"it is longer than {self._max_chars} characters")
        if (keys := self._keys.at_hand()) is None:
            return None
        digest = sha256(token.encode(errors="surrogatepass")).digest()
        entry = self._checked.get(digest)
        if entry is not None and entry.keys is keys and self._clock() < entry.ends_s:
            return entry.caller
        key = keys.find(*_header(token))
        return self._check(token, digest, keys, key) if key else None

    def _check(self, token: str, digest: bytes, keys: KeySet, key: VerifyingKey) -> Caller:
        claims = self._claims(token, key)
        caller = caller_of(claims, self._settings)
        ends_s = min(int(claims["exp"]), FAR_S) + LEEWAY_S
        if self._checked.maxsize:
            with self._lock:
                self._checked[digest] = _CheckedToken(caller, ends_s, keys)
        return caller

    def _claims(self, token: str, key: VerifyingKey) -> Claims:
        """What the token says, if it is the issuer's, for us, and of this time."""
        try:
            claims: Claims = jwt.decode(
                token,
                key.key.key,
                algorithms=sorted(key.algorithms),
                audience=self._settings.oidc_audience,
                issuer=self._settings.oidc_issuer,
                leeway=LEEWAY_S,
                options={"require": list(_REQUIRED_CLAIMS), "enforce_minimum_key_length": True},
            )
        except (jwt.PyJWTError, ValueError) as exc:
            _refuse(exc)
        if read_number(claims["exp"], 0) is None:
            raise _refusal("its exp is no number")  # PyJWT takes texts of digits; RFC 7519, section 2 does not
        return claims


def caller_of(claims: Claims, settings: Settings) -> Caller:
    """The caller that a good token names. Raises NotAuthenticated for claims out of shape.

    Scopes are those of `scope` (RFC 9068), else of `scp`, that are ours behind the prefix; there may be none.
    """
    subject = claims["sub"]
    if not subject.isprintable() or not 0 < len(subject) <= MAX_SUBJECT_CHARS:
        raise _refusal(f"its sub is not 1 to {MAX_SUBJECT_CHARS} printable characters")
    groups = _texts(_nested_claim(claims, settings.oidc_groups_claim), "the claim of groups", split=False)
    sees_everything = bool(settings.oidc_everything_group) and settings.oidc_everything_group in groups
    return Caller(
        id=f"oidc:{subject}",
        name=next((claims[name] for name in _NAMES if _is_name(claims.get(name))), ""),
        scopes=_scopes(claims, settings.oidc_scope_prefix),
        principal=None if sees_everything else Principal(groups=tuple(sorted(set(groups)))),
    )


def _scopes(claims: Claims, prefix: str) -> frozenset[Scope]:
    texts = _texts(claims.get("scope", claims.get("scp")), "the claim of scopes", split=True)
    ours = {each.removeprefix(prefix) for each in texts if each.startswith(prefix)}
    return frozenset(scope for scope in SCOPES if scope in ours)


def _nested_claim(claims: Claims, name: str) -> object:
    """The claim of this very name, or the one that the dots in it lead to; None if there is none."""
    if name in claims:
        return claims[name]
    value: object = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _texts(claim: object, what: str, *, split: bool) -> tuple[str, ...]:
    """A list of texts, or one text, which may be several with blanks between. Raises NotAuthenticated."""
    if claim is None:
        return ()
    if isinstance(claim, str):
        return tuple(claim.split()) if split else (claim,)
    if isinstance(claim, list) and all(isinstance(each, str) for each in claim):
        return tuple(claim)
    raise _refusal(f"{what} is neither a text nor a list of texts")


def _is_name(claim: object) -> bool:
    return isinstance(claim, str) and is_plain(claim)


def _header(token: str) -> tuple[str | None, str]:
    """Key id and algorithm, as the token itself says: nothing of it is trusted yet. Raises NotAuthenticated."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as exc:
        _refuse(exc)
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _refusal(f"it is not signed by one of {', '.join(sorted(ALGORITHMS))}")
    return kid, algorithm


def _refuse(exc: Exception) -> NoReturn:
    """In our own words: those of a library may quote the token. So no cause is kept either."""
    if isinstance(exc, jwt.MissingRequiredClaimError):
        raise _refusal(f"it has no {exc.claim}") from None
    raise _refusal(_REASONS.get(type(exc), "it is no JSON Web Token that can be read")) from None


def _refusal(reason: str) -> NotAuthenticated:
    return NotAuthenticated(f"the token is not accepted: {reason}")
