"""From two headers to a caller: keys and tokens side by side, and nothing secret in what is refused."""

import logging
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_issuer import AUDIENCE, FakeIssuer, fake_issuer, signer
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.access.authenticator import Authenticator, authentication_of
from waygraph.registry.access.visibility import Caller
from waygraph.registry.model.errors import (
    AccessError,
    InvalidSetting,
    IssuerUnavailable,
    KeysUnusable,
    NotAllowed,
    NotAuthenticated,
)
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path))


@pytest.fixture
def keys(settings: Settings) -> KeyFile:
    return KeyFile(settings.keys_path)


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    with fake_issuer(signer()) as running:
        yield running


def with_issuer(settings: Settings, issuer: FakeIssuer) -> Settings:
    return replace(settings, oidc_issuer=issuer.url, oidc_audience=AUDIENCE)


def test_a_keys_file_turns_it_on(settings: Settings, keys: KeyFile) -> None:
    key, text = keys.create("a", ["read"])
    keys.revoke(key.id)
    authenticator = authentication_of(settings)
    assert authenticator is not None
    with pytest.raises(NotAuthenticated, match="has expired or was revoked"):
        authenticator.caller(None, text)


def test_a_keys_file_that_is_named_turns_it_on_before_it_is_there(settings: Settings, tmp_path: Path) -> None:
    """A slip in its name must not open the service; a key that is made later is good at once."""
    named = replace(settings, keys_file=str(tmp_path / "elsewhere" / "keys.json"))
    authenticator = authentication_of(named)
    assert authenticator is not None
    _, text = KeyFile(tmp_path / "elsewhere" / "keys.json").create("a", ["read"])
    assert authenticator.caller(f"Bearer {text}", None).name == "a"


def test_a_damaged_keys_file_is_no_open_door(settings: Settings, keys: KeyFile) -> None:
    """It ends the start; and while a service runs, every call with a key."""
    _, text = keys.create("a", ["read"])
    running = Authenticator.of(settings)
    settings.keys_path.write_text("{}")
    with pytest.raises(KeysUnusable):
        authentication_of(settings)
    with pytest.raises(KeysUnusable):
        running.caller(None, text)


def test_an_issuer_turns_it_on(settings: Settings, issuer: FakeIssuer) -> None:
    with pytest.raises(InvalidSetting, match="WAYGRAPH_OIDC_AUDIENCE"):
        authentication_of(replace(settings, oidc_issuer=issuer.url))
    with pytest.raises(InvalidSetting, match="WAYGRAPH_OIDC_ISSUER"):
        authentication_of(replace(settings, oidc_audience=AUDIENCE))
    authenticator = authentication_of(with_issuer(settings, issuer))
    assert authenticator is not None
    assert issuer.requests == []
    assert authenticator.caller(f"Bearer {signer().token(issuer.claims())}", None).id == "oidc:user-1"


def test_a_key_names_its_caller(settings: Settings, keys: KeyFile) -> None:
    key, text = keys.create("billing", ["route", "read"], ["finance"])
    expected = Caller(
        id=f"key:{key.id}",
        name="billing",
        scopes=frozenset({"route", "read"}),
        principal=Principal(groups=("finance",)),
    )
    authenticator = Authenticator.of(settings)
    for authorization, api_key in (
        (f"Bearer {text}", None),
        (f"bearer  {text} ", None),
        (f"BEARER {text}", None),
        (None, text),
        (None, f" {text}"),
    ):
        assert authenticator.caller(authorization, api_key) == expected
        assert authenticator.known_caller(authorization, api_key) == expected


def test_a_key_may_see_everything(settings: Settings, keys: KeyFile) -> None:
    """With `everything`; without it and without groups it sees what is public."""
    authenticator = Authenticator.of(settings)
    _, admin = keys.create("admin", ["cypher"], everything=True)
    _, public = keys.create("public", ["cypher"])
    authenticator.caller(None, admin).require_everything("Cypher")
    caller = authenticator.caller(None, public)
    assert caller.principal is not None
    assert caller.principal.groups == ()
    with pytest.raises(NotAllowed):
        caller.require_everything("Cypher")
    with pytest.raises(NotAllowed, match="'write'"):
        caller.require("write")


def test_keys_and_tokens_work_side_by_side(settings: Settings, keys: KeyFile, issuer: FakeIssuer) -> None:
    """A key is never shown to the reader of tokens, and `X-API-Key` takes no token."""
    _, text = keys.create("a", ["read"])
    authenticator = Authenticator.of(with_issuer(settings, issuer))
    token = signer().token(issuer.claims())
    assert authenticator.known_caller(f"Bearer {text}", None) is not None
    assert authenticator.known_caller(f"Bearer {token}", None) is None
    assert authenticator.caller(f"Bearer {token}", None).id == "oidc:user-1"
    assert authenticator.known_caller(f"Bearer {token}", None) is not None
    with pytest.raises(NotAuthenticated, match="the API key is not known"):
        authenticator.caller(None, token)
    with pytest.raises(NotAuthenticated, match="the API key is not known"):
        authenticator.caller("Bearer wg_000000000000_nothing", None)
    assert issuer.fetches == 1


@pytest.mark.parametrize(
    ("authorization", "api_key", "told"),
    [
        (None, None, "nothing says who calls"),
        ("", None, "nothing says who calls"),
        ("Bearer", None, "nothing says who calls"),
        ("Bearer ", None, "nothing says who calls"),
        ("Basic dXNlcjpodXNo", None, "nothing says who calls"),
        ("wg_000000000000_hush", None, "nothing says who calls"),
        ("Bearer hush", "hush", "two headers say who calls"),
        (None, "", "the API key is not known"),
        (None, "hush", "the API key is not known"),
        ("Bearer hush", None, "the API key is not known"),
    ],
)
def test_what_names_nobody_is_refused(
    settings: Settings, keys: KeyFile, authorization: str | None, api_key: str | None, told: str
) -> None:
    keys.create("a", ["read"])
    authenticator = Authenticator.of(settings)
    for ask in (authenticator.caller, authenticator.known_caller):
        with pytest.raises(NotAuthenticated, match=told) as refused:
            ask(authorization, api_key)
        assert "hush" not in str(refused.value)


@given(st.none() | st.text(max_size=60), st.none() | st.text(max_size=60))
def test_nothing_but_a_refusal_comes_of_other_texts(
    tmp_path_factory: pytest.TempPathFactory, authorization: str | None, api_key: str | None
) -> None:
    settings = Settings(data_dir=str(tmp_path_factory.mktemp("data")))
    settings = replace(settings, oidc_issuer="http://127.0.0.1:9", oidc_audience=AUDIENCE)
    KeyFile(settings.keys_path).create("a", ["read"])
    authenticator = Authenticator.of(settings)
    with pytest.raises(AccessError):
        authenticator.caller(authorization, api_key)
    with pytest.raises(AccessError):
        authenticator.caller(f"Bearer {authorization}", None)


def test_no_error_log_or_repr_tells_a_secret(
    settings: Settings, keys: KeyFile, issuer: FakeIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    """Of keys and tokens that are wrong, expired, revoked or cannot be checked now; tracebacks too."""
    caplog.set_level(logging.DEBUG)
    key, revoked = keys.create("a", ["read"])
    _, good = keys.create("b", ["read"])
    keys.revoke(key.id)
    authenticator = Authenticator.of(with_issuer(settings, issuer))
    tokens = [
        signer("other").token(issuer.claims(sub="SUBJECT-HUSH")),
        signer().token(issuer.claims(sub="SUBJECT-HUSH", exp=1)),
        signer().token(issuer.claims(sub="SUBJECT-HUSH", aud="AUDIENCE-HUSH")),
        signer().token(issuer.claims(sub="SUBJECT-HUSH"), kid="KID-HUSH"),
        signer().token(issuer.claims(sub="SUBJECT-HUSH"), alg="ALG-HUSH"),
        "ey.HUSH.HUSH",
    ]
    told = []
    for shown in (revoked, good[:-1], *tokens):
        with pytest.raises(NotAuthenticated) as refused:
            authenticator.caller(f"Bearer {shown}", None)
        told += ["".join(traceback.format_exception_only(refused.value)), repr(refused.value)]
    issuer.status = 500
    with pytest.raises(IssuerUnavailable) as failed:
        Authenticator.of(with_issuer(settings, issuer)).caller(f"Bearer {tokens[0]}", None)
    told += [repr(failed.value), repr(authenticator), repr(authenticator.caller(None, good)), caplog.text]
    secrets = [*(text.split("_", 2)[2] for text in (revoked, good)), *tokens, "HUSH"]
    assert [(secret, said) for said in told for secret in secrets if secret in said] == []
