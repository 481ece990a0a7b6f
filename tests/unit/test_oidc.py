"""Tokens of an issuer on a real socket: which are taken, which never, and what the issuer is asked."""

import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fake_issuer import AUDIENCE, DISCOVERY, FakeIssuer, Signer, base64url, fake_issuer, signer, unsigned
from waygraph.registry.access import Caller
from waygraph.registry.authentication.issuer_documents import IssuerDocuments
from waygraph.registry.authentication.issuer_keys import ALGORITHMS, IssuerKeys, Patience, verifying_keys
from waygraph.registry.authentication.oidc import OidcTokens, TokenRules, caller_of
from waygraph.registry.errors import InvalidSetting, IssuerUnavailable, NotAuthenticated
from waygraph.registry.model import Principal
from waygraph.registry.settings import Settings

PATIENCE = Patience(lifetime_s=600.0, stale_s=3600.0, refetch_s=10.0)
LOOSE = TokenRules(issuer="https://issuer.example.com", audience=AUDIENCE)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@dataclass
class World:
    """An issuer, and a reader of its tokens by a clock that the test moves."""

    issuer: FakeIssuer
    signer: Signer
    settings: Settings
    now_s: float = 1000.0
    tokens: OidcTokens = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.reader()

    def reader(self, **changes: Any) -> OidcTokens:
        """Another reader, with other settings; the patience is fixed."""
        settings = replace(self.settings, **changes)
        documents = IssuerDocuments.of(settings)
        keys = IssuerKeys(documents.keys, documents.host, PATIENCE, clock=lambda: self.now_s)
        return OidcTokens(TokenRules.of(settings), keys, cached=settings.oidc_cached_tokens)

    def token(self, **changes: object) -> str:
        return self.signer.token(self.issuer.claims(**changes))

    def reason(self, token: str) -> str:
        """Why it is refused."""
        with pytest.raises(NotAuthenticated) as refused:
            self.tokens.caller(token)
        assert refused.value.__cause__ is None
        return str(refused.value).removeprefix("the token is not accepted: ")


def world_of(issuer: FakeIssuer, by: Signer) -> World:
    settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE, oidc_timeout_s=30.0)
    return World(issuer, by, settings)


@pytest.fixture
def world() -> Iterator[World]:
    with fake_issuer(signer()) as issuer:
        yield world_of(issuer, signer())


# -- what is taken -------------------------------------------------------------------------------------


def test_a_good_token_names_its_caller(world: World) -> None:
    """By subject, groups and our scopes; those of other services are left out."""
    token = world.token(preferred_username="ada@example.com")
    assert world.tokens.caller(token) == Caller(
        id="oidc:user-1",
        name="ada@example.com",
        scopes=frozenset({"route", "read"}),
        principal=Principal(groups=("finance",)),
    )


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_asymmetric_algorithm_is_taken(algorithm: str) -> None:
    """Signed by another library than the one that checks; also with a key that names no algorithm."""
    by = signer("any", algorithm)
    with fake_issuer(by) as issuer:
        world = world_of(issuer, by)
        assert world.tokens.caller(world.token()).id == "oidc:user-1"
        issuer.published = [{name: value for name, value in by.jwk.items() if name != "alg"}]
        assert world.reader().caller(world.token()).id == "oidc:user-1"


def test_the_audience_may_be_one_of_several(world: World) -> None:
    assert world.tokens.caller(world.token(aud=["account", AUDIENCE])).id == "oidc:user-1"


def test_clocks_may_differ_by_the_leeway(world: World) -> None:
    """Half a minute either way."""
    now_s = int(time.time())
    assert world.tokens.caller(world.token(exp=now_s - 20))
    assert world.tokens.caller(world.token(nbf=now_s + 20, iat=now_s + 20))
    assert world.reason(world.token(exp=now_s - 31)) == "it has expired"
    assert world.reason(world.token(nbf=now_s + 60)) == "it is not valid yet"


def test_a_token_without_a_key_id_is_taken_where_one_key_fits(world: World) -> None:
    """With two that fit it is not said which."""
    token = world.signer.token(world.issuer.claims(), kid=None)
    assert world.tokens.caller(token)
    world.issuer.published.append(signer("second").jwk)
    world.tokens = world.reader()
    assert "does not publish" in world.reason(token)


def test_a_key_that_is_named_is_where_the_setting_says(world: World) -> None:
    """Then discovery is not asked."""
    tokens = world.reader(oidc_jwks_url=f"{world.issuer.url}/keys", oidc_issuer="https://issuer.example.com")
    assert tokens.caller(world.token(iss="https://issuer.example.com"))
    assert world.issuer.requests == ["/keys"]


# -- what is not ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "it has expired"),
        ({"nbf": 4_102_444_800}, "it is not valid yet"),
        ({"iat": 4_102_444_800}, "it is not valid yet"),
        ({"aud": "https://other.example.com"}, "it is meant for another audience"),
        ({"aud": AUDIENCE + "/"}, "it is meant for another audience"),
        ({"aud": []}, "it has no aud"),
        ({"iss": "https://evil.example.com"}, "it is of another issuer"),
        ({"exp": None}, "it has no exp"),
        ({"iss": None}, "it has no iss"),
        ({"aud": None}, "it has no aud"),
        ({"sub": None}, "it has no sub"),
        ({"sub": ""}, "its sub is not 1 to 255 printable characters"),
        ({"sub": "a\nb"}, "its sub is not 1 to 255 printable characters"),
        ({"sub": "a" * 256}, "its sub is not 1 to 255 printable characters"),
        ({"sub": 7}, "it is no JSON Web Token that can be read"),
        ({"exp": "soon"}, "it is no JSON Web Token that can be read"),
        ({"exp": float("inf")}, "it is no JSON Web Token that can be read"),
        ({"exp": float("nan")}, "it is no JSON Web Token that can be read"),
        ({"groups": {"finance": True}}, "the claim of groups is neither a text nor a list of texts"),
        ({"groups": ["finance", 7]}, "the claim of groups is neither a text nor a list of texts"),
        ({"scope": 7}, "the claim of scopes is neither a text nor a list of texts"),
    ],
    ids=str,
)
def test_a_signed_token_with_other_claims_is_refused(world: World, claims: dict[str, object], reason: str) -> None:
    """The signature alone is not enough."""
    assert world.reason(world.token(**claims)) == reason


def test_a_forged_signature_is_refused(world: World) -> None:
    """By another key of the same id, over other claims, cut, or of zeros."""
    other = Signer("first", "ES256", signer("other").private)
    assert world.reason(other.token(world.issuer.claims())) == "its signature is not the issuer's"
    header, claims, signature = world.token().split(".")
    raised = base64url(json.dumps(world.issuer.claims(groups=["admins"])).encode())
    for forged in (
        f"{header}.{raised}.{signature}",
        f"{header}.{claims}.{signature[:80]}",
        f"{header}.{claims}.{base64url(bytes(64))}",
        f"{header}.{claims}.",
    ):
        assert world.reason(forged) == "its signature is not the issuer's"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 7, ["ES256"]])
def test_a_token_that_nobody_signed_is_refused(world: World, algorithm: object) -> None:
    """Whatever it calls its algorithm."""
    token = unsigned({"typ": "JWT", "alg": algorithm, "kid": "first"}, world.issuer.claims())
    for signature in ("", base64url(bytes(64))):
        assert "it is n" in world.reason(f"{token}.{signature}")
    assert world.issuer.requests == []


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_no_shared_secret(algorithm: str) -> None:
    """What everybody may read must not sign: the classic confusion of RS256 and HS256, in every form of the key."""
    by = signer("rsa", "RS256")
    with fake_issuer(by) as issuer:
        world = world_of(issuer, by)
        assert world.tokens.caller(world.token())
        public = by.private.public_key()
        forms = [
            public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            json.dumps(by.jwk).encode(),
            str(by.jwk["n"]).encode(),
        ]
        signed = unsigned({"typ": "JWT", "alg": algorithm, "kid": "rsa"}, issuer.claims())
        digest = f"sha{algorithm[2:]}"
        for form in forms:
            forged = f"{signed}.{base64url(hmac.digest(form, signed.encode(), digest))}"
            assert "it is not signed by one of" in world.reason(forged)


def test_a_shared_secret_among_the_issuers_keys_is_not_used(world: World) -> None:
    """An `oct` key checks nothing here, even if it is published and names RS256."""
    secret = b"s" * 32
    for bound in ("HS256", "RS256"):
        world.issuer.published = [signer().jwk, {"kid": "oct", "kty": "oct", "k": base64url(secret), "alg": bound}]
        world.tokens = world.reader()
        signed = unsigned({"alg": "HS256", "kid": "oct"}, world.issuer.claims())
        world.reason(f"{signed}.{base64url(hmac.new(secret, signed.encode(), sha256).digest())}")
        signed = unsigned({"alg": "RS256", "kid": "oct"}, world.issuer.claims())
        assert "does not publish" in world.reason(f"{signed}.{base64url(bytes(256))}")


def test_a_key_that_the_token_brings_is_not_used(world: World) -> None:
    """Neither inside the header nor by an address in it, nor a critical extension that nobody knows."""
    mine = signer("mine")
    for header in ({"jwk": mine.jwk}, {"jku": f"{world.issuer.url}/mine"}, {"x5u": f"{world.issuer.url}/mine"}):
        token = mine.token(world.issuer.claims(), kid="first", **header)
        assert world.reason(token) == "its signature is not the issuer's"
    assert set(world.issuer.requests) == {DISCOVERY, "/keys"}
    critical = world.signer.token(world.issuer.claims(), crit=["exp2"], exp2=1)
    assert world.reason(critical) == "it is no JSON Web Token that can be read"


def test_a_key_signs_by_its_own_algorithm_only() -> None:
    """One that is bound to RS256 takes no PS256, and one of 1,024 bits nothing."""
    bound, weak = signer("rsa", "RS256"), signer("weak", "RS256", bits=1024)
    with fake_issuer(bound, weak) as issuer:
        world = world_of(issuer, bound)
        other = Signer("rsa", "PS256", bound.private)
        assert "does not publish" in world.reason(other.token(issuer.claims()))
        assert "no JSON Web Token" in world.reason(weak.token(issuer.claims()))


@pytest.mark.parametrize(
    "changes", [{"use": "enc"}, {"key_ops": ["encrypt"]}, {"d": signer().private_jwk["d"]}, {"kid": 7}, {"kty": "XX"}]
)
def test_keys_that_are_not_for_checking_are_left_out(changes: dict[str, object]) -> None:
    """For encryption, private (everybody can sign with it now), or of an unknown kind."""
    assert verifying_keys({"keys": [{**signer().jwk, **changes}]}) == ()


@given(ANY_JSON)
def test_rubbish_among_the_keys_is_left_out(rubbish: Any) -> None:
    """The good key stays, whatever stands beside it or in its fields."""
    good = signer().jwk
    assert [key.kid for key in verifying_keys({"keys": [rubbish, good]})] == ["first"]
    for name in ("x", "crv", "kty", "alg", "use", "key_ops", "kid"):
        assert len(verifying_keys({"keys": [{**good, name: rubbish}]})) <= 1
    assert verifying_keys({"keys": rubbish if not isinstance(rubbish, list) else []}) == ()


def test_a_token_that_is_too_long_is_refused_unread(world: World) -> None:
    """However good it is; and nobody is asked for it."""
    tokens = world.reader(oidc_max_token_chars=2_000)
    with pytest.raises(NotAuthenticated, match="longer than 2000 characters"):
        tokens.caller(world.token(note="a" * 2_000))
    assert world.issuer.requests == []
    assert tokens.caller(world.token())


PARTS = st.lists(st.binary().map(base64url), min_size=1, max_size=4)


@given(st.text() | PARTS.map(".".join))
@example("")
@example("..")
@example(base64url(b"[" * 9_000) + ".e30.e30")
@example(base64url(b'{"alg":"ES256","kid":' + b"9" * 5_000 + b"}") + ".e30.e30")
@example("a" * 100_000)
@example("\ud800.e30.e30")
def test_rubbish_is_refused_and_never_fails_otherwise(text: str) -> None:
    """Nothing but NotAuthenticated comes of it, and the issuer is not asked."""
    asked: list[int] = []

    def fetch() -> Mapping[str, object]:
        asked.append(1)
        return {"keys": [signer().jwk]}

    tokens = OidcTokens(LOOSE, IssuerKeys(fetch, "issuer", PATIENCE))
    with pytest.raises(NotAuthenticated) as refused:
        tokens.caller(text)
    assert len(text) < 20 or text not in str(refused.value)
    assert asked == []


@given(ANY_JSON, ANY_JSON)
def test_any_header_and_claims_are_read_or_refused(header: Any, claims: Any) -> None:
    """Well signed nonsense, too: a caller, or NotAuthenticated."""
    tokens = OidcTokens(LOOSE, IssuerKeys(lambda: {"keys": [signer().jwk]}, "issuer", PATIENCE))
    good = {"iss": LOOSE.issuer, "aud": AUDIENCE, "sub": "a", "exp": int(time.time()) + 60}
    for told in (claims, {**good, "groups": claims}, {**good, "scope": claims}, {**good, "exp": claims}):
        token = signer().token(told)
        try:
            assert tokens.caller(token).id.startswith("oidc:")
        except NotAuthenticated as refused:
            assert token not in str(refused)  # noqa: PT017 - either of the two is right
    with pytest.raises(NotAuthenticated):
        tokens.caller(unsigned({**header, "alg": "ES256"} if isinstance(header, dict) else header, good) + ".e30")


# -- what claims mean ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "waygraph:route"}, ["route"]),
        ({"scope": "waygraph:route waygraph:cypher waygraph:admin route write openid"}, ["cypher", "route"]),
        ({"scope": ["waygraph:write"]}, ["write"]),
        ({"scp": "waygraph:read waygraph:use"}, ["read", "use"]),
        ({"scp": ["waygraph:read", "profile"]}, ["read"]),
        ({"scope": "openid", "scp": ["waygraph:write"]}, list[str]()),
        ({"scope": "Waygraph:read waygraph:READ waygraph:"}, list[str]()),
        ({}, list[str]()),
    ],
    ids=str,
)
def test_scopes_are_those_of_ours(claims: dict[str, object], scopes: list[str]) -> None:
    """Behind the prefix, spelled just so."""
    assert caller_of({"sub": "a", **claims}, LOOSE).scopes == frozenset(scopes)


def test_the_prefix_may_be_another_one_or_none() -> None:
    told = {"sub": "a", "scope": "api://way/read write"}
    assert caller_of(told, replace(LOOSE, scope_prefix="api://way/")).scopes == {"read"}
    assert caller_of(told, replace(LOOSE, scope_prefix="")).scopes == {"write"}


@pytest.mark.parametrize(
    ("name", "claims", "groups"),
    [
        ("groups", {"groups": ["a", "b"]}, ("a", "b")),
        ("groups", {"groups": "a b"}, ("a b",)),
        ("groups", {}, ()),
        ("groups", {"groups": None}, ()),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, ("a",)),
        ("realm_access.roles", {"realm_access": ["roles"]}, ()),
        ("realm_access.roles", {"realm_access": {}}, ()),
        ("https://example.com/groups", {"https://example.com/groups": ["a"]}, ("a",)),
        ("a.b.c", {"a": {"b": {"c": ["d"]}}, "a.b": {"c": ["e"]}}, ("d",)),
    ],
    ids=str,
)
def test_groups_come_from_the_claim_that_is_named(
    name: str, claims: dict[str, object], groups: tuple[str, ...]
) -> None:
    """By its whole name, which may have dots, or by the way that the dots tell."""
    caller = caller_of({"sub": "a", **claims}, replace(LOOSE, groups_claim=name))
    assert caller.principal == Principal(groups=groups)


def test_members_of_one_group_see_everything() -> None:
    """If it is set; an empty group in a token is no such member."""
    rules = replace(LOOSE, everything_group="admins")
    assert caller_of({"sub": "a", "groups": ["x", "admins"]}, rules).sees_everything
    assert not caller_of({"sub": "a", "groups": ["Admins", ""]}, rules).sees_everything
    assert not caller_of({"sub": "a", "groups": [""]}, LOOSE).sees_everything


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "a@example.com", "name": "Ada"}, "a@example.com"),
        ({"name": "Ada\nforged line"}, ""),
        ({"preferred_username": 7, "azp": "client"}, "client"),
        ({}, ""),
    ],
    ids=str,
)
def test_a_name_is_a_line_or_nothing(claims: dict[str, object], name: str) -> None:
    assert caller_of({"sub": "a", **claims}, LOOSE).name == name


# -- what the issuer is asked --------------------------------------------------------------------------


def test_keys_are_fetched_once_for_many_tokens(world: World) -> None:
    """Also for many threads that come at the same time."""
    world.issuer.gate.clear()
    tokens = [world.token(sub=f"user-{number}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(world.tokens.caller, tokens)
        threading.Timer(0.2, world.issuer.gate.set).start()
        callers = list(asked)
    assert [caller.id for caller in callers] == [f"oidc:user-{number}" for number in range(40)]
    assert world.issuer.requests == [DISCOVERY, "/keys"]


def test_a_rotated_key_is_fetched(world: World) -> None:
    """A token by a key that is new: its first use asks, the next does not; the former key counts no more."""
    old = world.token()
    assert world.tokens.caller(old)
    fresh = signer("second")
    world.issuer.published = [fresh.jwk]
    world.now_s += PATIENCE.refetch_s
    for _ in range(3):
        assert world.tokens.caller(fresh.token(world.issuer.claims()))
    assert world.issuer.fetches == 2
    assert "does not publish" in world.reason(old)


def test_rubbish_does_not_hammer_the_issuer(world: World) -> None:
    """A hundred unknown keys in one moment: one fetch; good tokens are taken meanwhile."""
    assert world.tokens.caller(world.token())
    world.now_s += PATIENCE.refetch_s
    for number in range(100):
        token = signer("unknown").token(world.issuer.claims(), kid=f"made-up-{number}")
        assert "does not publish" in world.reason(token)
    assert world.issuer.fetches == 2
    assert world.tokens.caller(world.token(sub="user-2"))
    world.now_s += PATIENCE.refetch_s
    world.reason(signer("unknown").token(world.issuer.claims()))
    assert world.issuer.fetches == 3


def test_keys_are_renewed_after_their_lifetime(world: World) -> None:
    """A key that was withdrawn counts until then, and no longer; remembered tokens neither."""
    token = world.token()
    assert world.tokens.caller(token)
    world.issuer.published = [signer("second").jwk]
    world.now_s += PATIENCE.lifetime_s
    assert world.tokens.caller(token)
    world.now_s += 1.0
    assert world.tokens.known(token) is None
    assert "does not publish" in world.reason(token)
    assert world.issuer.fetches == 2


def test_an_issuer_that_is_down_is_an_error_that_may_pass() -> None:
    """Nobody is taken unchecked, and nobody refused; when it is back, tokens are taken."""
    with fake_issuer(signer()) as issuer:
        address = issuer.url
        world = world_of(issuer, signer())
        token = world.token()
    with pytest.raises(IssuerUnavailable, match=r"127\.0\.0\.1 cannot be reached") as failed:
        world.tokens.caller(token)
    assert failed.value.retryable
    with pytest.raises(IssuerUnavailable):
        world.tokens.caller(token)
    with fake_issuer(signer()) as issuer:
        issuer.discovery = {"issuer": address}
        back = world_of(issuer, signer())
        assert back.reader(oidc_issuer=address, oidc_jwks_url=f"{issuer.url}/keys").caller(token)


def test_held_keys_work_while_the_issuer_is_down(caplog: pytest.LogCaptureFixture) -> None:
    """After their lifetime too, with a warning, until they are too old. Unknown keys cannot be told then."""
    with fake_issuer(signer()) as issuer:
        world = world_of(issuer, signer())
        assert world.tokens.caller(world.token())
    world.now_s += PATIENCE.lifetime_s + 1.0
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            assert world.tokens.caller(world.token(sub=f"user-{number}"))
    assert [record.message for record in caplog.records if "keys of tokens were not renewed" in record.message]
    assert len(caplog.records) == 1
    with pytest.raises(IssuerUnavailable):
        world.tokens.caller(signer("second").token(issuer.claims()))
    world.now_s += PATIENCE.stale_s
    with pytest.raises(IssuerUnavailable):
        world.tokens.caller(world.token())


def test_one_thread_renews_while_the_others_go_on(world: World) -> None:
    """A slow issuer delays one request after the lifetime, not all."""
    tokens = [world.token(sub=f"user-{number}") for number in range(20)]
    assert world.tokens.caller(tokens[0])
    world.now_s += PATIENCE.lifetime_s + 1.0
    world.issuer.gate.clear()
    renewing = threading.Thread(target=world.tokens.caller, args=(tokens[0],))
    renewing.start()
    while len(world.issuer.requests) < 3:
        time.sleep(0.005)
    for token in tokens[1:]:
        assert world.tokens.known(token)
    assert renewing.is_alive()
    world.issuer.gate.set()
    renewing.join()
    assert world.issuer.fetches == 2


def test_known_never_asks_the_issuer(world: World) -> None:
    """It says None where `caller` would: at first, for an unknown key; after that it knows."""
    token = world.token()
    assert world.tokens.known(token) is None
    assert world.issuer.requests == []
    caller = world.tokens.caller(token)
    assert world.tokens.known(token) == caller
    assert world.tokens.known(world.token(sub="user-2")) is not None
    assert world.tokens.known(signer("second").token(world.issuer.claims())) is None
    assert world.issuer.fetches == 1
    with pytest.raises(NotAuthenticated):
        world.tokens.known(world.token(exp=1))


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens whose signature was checked, by the real library."""
    checked: list[str] = []
    real: Callable[..., Any] = jwt.decode

    def counted(token: str, *args: Any, **options: Any) -> Any:
        checked.append(token)
        return real(token, *args, **options)

    monkeypatch.setattr(jwt, "decode", counted)
    return checked


def test_a_token_is_remembered_until_it_expires(world: World, checks: list[str]) -> None:
    """Its second use is no check of the signature; from its last second on every use is one."""
    now = [time.time()]
    documents = IssuerDocuments.of(world.settings)
    keys = IssuerKeys(documents.keys, documents.host, PATIENCE)
    tokens = OidcTokens(TokenRules.of(world.settings), keys, clock=lambda: now[0])
    ends_s = int(now[0]) + 300
    token = world.token(exp=ends_s)
    for at_s, checked in ((now[0], 1), (now[0], 1), (ends_s + 29.9, 1), (ends_s + 30.0, 2), (ends_s + 30.0, 3)):
        now[0] = at_s
        assert tokens.caller(token)
        assert len(checks) == checked


def test_remembered_tokens_are_bounded(world: World, checks: list[str]) -> None:
    """Of three tokens two are remembered, and of none none; the rest are checked again, with the same answer."""
    three = [world.token(sub=f"user-{number}") for number in range(3)]
    for cached, expected in ((2, 3 + 1), (0, 3 + 3)):
        checks.clear()
        tokens = world.reader(oidc_cached_tokens=cached)
        assert [tokens.caller(token).id[-1] for token in (*three, *reversed(three))] == list("012210")
        assert len(checks) == expected


# -- what the issuer answers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ({"status": 500}, "answers 500"),
        ({"status": 404}, "answers 404"),
        ({"status": 302, "headers": {"Location": "https://evil.example.com/keys"}}, "redirects are not followed"),
        ({"body": b""}, "no JSON"),
        ({"body": b"<html>"}, "no JSON"),
        ({"body": b"[" * 50_000}, "no JSON"),
        ({"body": b"[]"}, "no object"),
        ({"body": b"{}"}, "publishes no public key"),
        ({"body": b'{"keys": [7, {"kty": "RSA"}]}'}, "publishes no public key"),
        ({"body": b'{"keys": [' + b" " * 2_000_000 + b"]}"}, "more than 1048576 bytes"),
        ({"headers": {"Content-Encoding": "gzip"}}, "compressed"),
        ({"gate": False}, "did not answer within 1 s"),
        ({"drip_s": 0.1}, "did not answer in full within 1 s"),
        ({"discovery": {"issuer": "https://evil.example.com"}}, "of another issuer"),
        ({"discovery": {"jwks_uri": "http://keys.example.com/keys"}}, "must begin with https://"),
        ({"discovery": {"jwks_uri": "file:///etc/passwd"}}, "must be an address"),
        ({"discovery": {"jwks_uri": 7}}, "must be an address"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_is_none_is_told(world: World, behaviour: dict[str, Any], told: str) -> None:
    """Nothing is taken of it, and it may pass."""
    for name, value in behaviour.items():
        if name == "gate":
            world.issuer.gate.clear()
        else:
            setattr(world.issuer, name, value)
    tokens = world.reader(oidc_timeout_s=1.0 if "gate" in behaviour or "drip_s" in behaviour else 30.0)
    with pytest.raises(IssuerUnavailable, match=told):
        tokens.caller(world.token())


# -- settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"oidc_audience": ""}, "needs WAYGRAPH_OIDC_AUDIENCE"),
        ({"oidc_issuer": "http://login.example.com"}, "WAYGRAPH_OIDC_ISSUER must begin with https://"),
        ({"oidc_issuer": "login.example.com"}, "WAYGRAPH_OIDC_ISSUER must be an address"),
        ({"oidc_issuer": "https://user:hush@login.example.com"}, "without password"),
        ({"oidc_issuer": "https://login.example.com:port"}, "WAYGRAPH_OIDC_ISSUER is not an address"),
        ({"oidc_jwks_url": "http://10.0.0.1/keys"}, "WAYGRAPH_OIDC_JWKS_URL must begin with https://"),
        ({"oidc_jwks_url": "ftp://login.example.com/keys"}, "WAYGRAPH_OIDC_JWKS_URL must be an address"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_told(changes: dict[str, Any], told: str) -> None:
    """Before anybody is asked anything, and without the password."""
    settings = replace(Settings(oidc_issuer="https://login.example.com/", oidc_audience=AUDIENCE), **changes)
    with pytest.raises(InvalidSetting, match=told) as refused:
        OidcTokens.of(settings)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_this_machine_needs_no_certificate(host: str) -> None:
    """http is for a sidecar or a test; every other host needs https."""
    OidcTokens.of(Settings(oidc_issuer=f"http://{host}:8443/realm", oidc_audience=AUDIENCE))
