"""Bearer tokens of an OIDC issuer: JSON Web Tokens (RFC 7519), checked as RFC 8725 and RFC 9068 advise."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any, NoReturn

import jwt

from waygraph.registry.access import SCOPES, Caller, Scope
from waygraph.registry.authentication.issuer_documents import IssuerDocuments
from waygraph.registry.authentication.issuer_keys import ALGORITHMS, IssuerKeys, KeySet, Patience, VerifyingKey
from waygraph.registry.authentication.keys import is_plain
from waygraph.registry.errors import InvalidSetting, NotAuthenticated
from waygraph.registry.model import Principal
from waygraph.registry.settings import Settings

type Claims = Mapping[str, Any]

_REASONS: dict[type[Exception], str] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidAudienceError: "it is meant for another audience",
    jwt.InvalidIssuerError: "it is of another issuer",
    jwt.InvalidSignatureError: "its signature is not the issuer's",
}
_NAMES = ("preferred_username", "email", "name", "client_id", "azp")
_REQUIRED = ("exp", "iss", "aud", "sub")
FAR_S = 2**53
"""Farther times are no numbers of a clock."""
MAX_SUBJECT_CHARS = 255
"""OpenID Connect Core 1.0, section 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token must say, and how its claims are read. `leeway_s`: how far the issuer's clock may be from ours."""

    issuer: str
    audience: str
    groups_claim: str = "groups"
    scope_prefix: str = "waygraph:"
    everything_group: str = ""
    leeway_s: float = 30.0
    max_chars: int = 16_384

    @classmethod
    def of(cls, settings: Settings) -> "TokenRules":
        """Raises InvalidSetting without an audience: tokens for any other service of the issuer would do."""
        if not settings.oidc_audience:
            raise InvalidSetting("WAYGRAPH_OIDC_ISSUER needs WAYGRAPH_OIDC_AUDIENCE: what the tokens' `aud` names")
        return cls(
            issuer=settings.oidc_issuer,
            audience=settings.oidc_audience,
            groups_claim=settings.oidc_groups_claim,
            scope_prefix=settings.oidc_scope_prefix,
            everything_group=settings.oidc_everything_group,
            leeway_s=settings.oidc_leeway_s,
            max_chars=settings.oidc_max_token_chars,
        )


@dataclass(frozen=True, slots=True)
class _Checked:
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
        self, rules: TokenRules, keys: IssuerKeys, *, cached: int = 1024, clock: Callable[[], float] = time.time
    ) -> None:
        self._rules, self._keys, self._cached, self._clock = rules, keys, cached, clock
        self._checked: OrderedDict[bytes, _Checked] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def of(cls, settings: Settings, *, keys_clock: Callable[[], float] = time.monotonic) -> "OidcTokens":
        """As the settings say; asks nobody yet. `keys_clock`: as IssuerKeys'. Raises InvalidSetting."""
        documents = IssuerDocuments.of(settings)
        patience = Patience(
            lifetime_s=settings.oidc_keys_lifetime_s,
            stale_s=settings.oidc_keys_stale_s,
            refetch_s=settings.oidc_refetch_s,
        )
        keys = IssuerKeys(documents.keys, documents.host, patience, keys_clock)
        return cls(TokenRules.of(settings), keys, cached=settings.oidc_cached_tokens)

    def caller(self, token: str) -> Caller:
        """Whose token it is. May wait for the issuer.

        Raises NotAuthenticated, which quotes nothing of the token; IssuerUnavailable if the issuer must be asked
        and does not answer.
        """
        return self.known(token) or self._asked(token)

    def known(self, token: str) -> Caller | None:
        """Whose token it is, without waiting; None if the issuer must be asked. Raises NotAuthenticated."""
        if len(token) > self._rules.max_chars:
            raise _refused(f"it is longer than {self._rules.max_chars} characters")
        keys = self._keys.at_hand()
        if keys is None:
            return None
        digest = sha256(token.encode(errors="surrogatepass")).digest()
        held = self._checked.get(digest)
        if held is not None and held.keys is keys and self._clock() < held.ends_s:
            return held.caller
        key = keys.find(*_header(token))
        return self._check(token, digest, keys, key) if key else None

    def _asked(self, token: str) -> Caller:
        found = self._keys.find(*_header(token))
        if found is None:
            raise _refused("it is signed by a key that the issuer does not publish")
        return self._check(token, sha256(token.encode(errors="surrogatepass")).digest(), *found)

    def _check(self, token: str, digest: bytes, keys: KeySet, key: VerifyingKey) -> Caller:
        claims = self._claims(token, key)
        caller = caller_of(claims, self._rules)
        ends_s = min(int(claims["exp"]), FAR_S) + self._rules.leeway_s
        self._remember(digest, _Checked(caller, ends_s, keys))
        return caller

    def _claims(self, token: str, key: VerifyingKey) -> Claims:
        """What the token says, if it is the issuer's, for us, and of this time."""
        try:
            return jwt.decode(
                token,
                key.key.key,
                algorithms=sorted(key.algorithms),
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=self._rules.leeway_s,
                options={"require": list(_REQUIRED), "enforce_minimum_key_length": True},
            )
        except (jwt.PyJWTError, ValueError) as exc:
            _refuse(exc)

    def _remember(self, digest: bytes, checked: _Checked) -> None:
        with self._lock:
            self._checked[digest] = checked
            while len(self._checked) > self._cached:
                self._checked.popitem(last=False)


def caller_of(claims: Claims, rules: TokenRules) -> Caller:
    """The caller that a good token names. Raises NotAuthenticated for claims out of shape.

    Scopes are those of `scope` (RFC 9068), else of `scp`, that are ours behind the prefix; there may be none.
    """
    subject = claims["sub"]
    if not subject.isprintable() or not 0 < len(subject) <= MAX_SUBJECT_CHARS:
        raise _refused(f"its sub is not 1 to {MAX_SUBJECT_CHARS} printable characters")
    groups = _texts(_nested(claims, rules.groups_claim), "the claim of groups", split=False)
    sees_everything = bool(rules.everything_group) and rules.everything_group in groups
    caller_id = f"oidc:{subject}"
    return Caller(
        id=caller_id,
        name=next((claims[name] for name in _NAMES if _is_name(claims.get(name))), ""),
        scopes=_scopes(claims, rules.scope_prefix),
        principal=None if sees_everything else Principal(groups=tuple(sorted(set(groups)))),
    )


def _scopes(claims: Claims, prefix: str) -> frozenset[Scope]:
    told = _texts(claims.get("scope", claims.get("scp")), "the claim of scopes", split=True)
    ours = {each.removeprefix(prefix) for each in told if each.startswith(prefix)}
    return frozenset(scope for scope in SCOPES if scope in ours)


def _nested(claims: Claims, name: str) -> object:
    """The claim of this very name, or the one that the dots in it lead to; None if there is none."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _texts(claim: object, what: str, *, split: bool) -> tuple[str, ...]:
    """A list of texts, or one text, which may be several with blanks between. Raises NotAuthenticated."""
    if claim is None:
        return ()
    if isinstance(claim, str):
        return tuple(claim.split()) if split else (claim,)
    if isinstance(claim, list) and all(isinstance(each, str) for each in claim):
        return tuple(claim)
    raise _refused(f"{what} is neither a text nor a list of texts")


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
        raise _refused(f"it is not signed by one of {', '.join(sorted(ALGORITHMS))}")
    return kid, algorithm


def _refuse(exc: Exception) -> NoReturn:
    """In our own words: those of a library may quote the token. So no cause is kept either."""
    if isinstance(exc, jwt.MissingRequiredClaimError):
        raise _refused(f"it has no {exc.claim}") from None
    raise _refused(_REASONS.get(type(exc), "it is no JSON Web Token that can be read")) from None


def _refused(reason: str) -> NotAuthenticated:
    return NotAuthenticated(f"the token is not accepted: {reason}")
