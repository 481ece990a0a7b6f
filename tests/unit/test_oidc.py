"""Tokens of an issuer on a real socket: which are taken, which never, and what they say."""

import hmac
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fake_issuer import AUDIENCE, DISCOVERY, Signer, base64url, fake_issuer, signer, unsigned
from tests.oidc_world import PATIENCE, World, new_world, world_of
from waygraph.registry.access.oidc import ALGORITHMS, IssuerKeys, OidcTokens, caller_of, verifying_keys
from waygraph.registry.access.visibility import Caller
from waygraph.registry.model.errors import NotAuthenticated
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings

LOOSE = Settings(oidc_issuer="https://issuer.example.com", oidc_audience=AUDIENCE)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def world() -> Iterator[World]:
    with new_world() as made:
        yield made


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


def test_clocks_may_differ_by_the_leeway(world: World) -> None:
    now_s = int(time.time())
    assert world.tokens.caller(world.token(exp=now_s - 20))
    assert world.tokens.caller(world.token(nbf=now_s + 20, iat=now_s + 20))
    assert world.reason(world.token(exp=now_s - 31)) == "it has expired"
    assert world.reason(world.token(nbf=now_s + 60)) == "it is not valid yet"


def test_the_claims_of_groups_and_scopes_are_settings(world: World) -> None:
    """As issuers name them: a claim within a claim, and scopes behind another prefix."""
    tokens = world.reader(oidc_groups_claim="realm_access.roles", oidc_scope_prefix="api://way/")
    caller = tokens.caller(world.token(realm_access={"roles": ["board"]}, scope="waygraph:read api://way/write"))
    assert caller.principal == Principal(groups=("board",))
    assert caller.scopes == {"write"}


def test_a_token_without_a_key_id_is_taken_where_one_key_fits(world: World) -> None:
    token = world.signer.token(world.issuer.claims(), kid=None)
    assert world.tokens.caller(token)
    world.issuer.published.append(signer("second").jwk)
    world.tokens = world.reader()
    assert "does not publish" in world.reason(token)


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
        ({"exp": "4102444800"}, "its exp is no number"),
        ({"exp": float("inf")}, "it is no JSON Web Token that can be read"),
        ({"exp": float("nan")}, "it is no JSON Web Token that can be read"),
        ({"groups": {"finance": True}}, "the claim of groups is neither a text nor a list of texts"),
        ({"groups": ["finance", 7]}, "the claim of groups is neither a text nor a list of texts"),
        ({"scope": 7}, "the claim of scopes is neither a text nor a list of texts"),
    ],
    ids=str,
)
def test_a_signed_token_with_other_claims_is_refused(world: World, claims: dict[str, object], reason: str) -> None:
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
    good = signer().jwk
    assert [key.kid for key in verifying_keys({"keys": [rubbish, good]})] == ["first"]
    for name in ("x", "crv", "kty", "alg", "use", "key_ops", "kid"):
        assert len(verifying_keys({"keys": [{**good, name: rubbish}]})) <= 1
    assert verifying_keys({"keys": rubbish if not isinstance(rubbish, list) else []}) == ()


def test_a_token_that_is_too_long_is_refused_unread(world: World) -> None:
    tokens = world.limited_reader(max_chars=2_000)
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
    tokens = OidcTokens(LOOSE, IssuerKeys(lambda: {"keys": [signer().jwk]}, "issuer", PATIENCE))
    good = {"iss": LOOSE.oidc_issuer, "aud": AUDIENCE, "sub": "a", "exp": int(time.time()) + 60}
    for told in (claims, {**good, "groups": claims}, {**good, "scope": claims}, {**good, "exp": claims}):
        token = signer().token(told)
        try:
            assert tokens.caller(token).id.startswith("oidc:")
        except NotAuthenticated as refused:
            assert token not in str(refused)  # noqa: PT017 - either of the two is right
    with pytest.raises(NotAuthenticated):
        tokens.caller(unsigned({**header, "alg": "ES256"} if isinstance(header, dict) else header, good) + ".e30")


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "waygraph:route"}, ["route"]),
        ({"scope": "waygraph:route waygraph:cypher waygraph:admin route write openid"}, ["admin", "cypher", "route"]),
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
    assert caller_of({"sub": "a", **claims}, LOOSE).scopes == frozenset(scopes)


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
    caller = caller_of({"sub": "a", **claims}, replace(LOOSE, oidc_groups_claim=name))
    assert caller.principal == Principal(groups=groups)


def test_members_of_one_group_see_everything() -> None:
    settings = replace(LOOSE, oidc_everything_group="admins")
    assert caller_of({"sub": "a", "groups": ["x", "admins"]}, settings).sees_everything
    assert not caller_of({"sub": "a", "groups": ["Admins", ""]}, settings).sees_everything
    assert not caller_of({"sub": "a", "groups": [""]}, LOOSE).sees_everything
