"""What the issuer of tokens is asked, and what becomes of its answers."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.fake_issuer import AUDIENCE, DISCOVERY, fake_issuer, signer
from tests.oidc_world import PATIENCE, World, new_world, world_of
from tests.servers.certificates import certified
from waygraph.registry.access.oidc import IssuerDocuments, IssuerKeys, OidcTokens
from waygraph.registry.model.errors import IssuerUnavailable, NotAuthenticated
from waygraph.registry.model.settings import Settings


@pytest.fixture
def world() -> Iterator[World]:
    with new_world() as made:
        yield made


def test_keys_are_fetched_once_for_many_tokens(world: World) -> None:
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
    assert world.tokens.known_caller(token) is None
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
    tokens = [world.token(sub=f"user-{number}") for number in range(20)]
    assert world.tokens.caller(tokens[0])
    world.now_s += PATIENCE.lifetime_s + 1.0
    world.issuer.gate.clear()
    renewing = threading.Thread(target=world.tokens.caller, args=(tokens[0],))
    renewing.start()
    while len(world.issuer.requests) < 3:
        time.sleep(0.005)
    for token in tokens[1:]:
        assert world.tokens.known_caller(token)
    assert renewing.is_alive()
    world.issuer.gate.set()
    renewing.join()
    assert world.issuer.fetches == 2


def test_known_never_asks_the_issuer(world: World) -> None:
    """It says None where `caller` would: at first, for an unknown key; after that it knows."""
    token = world.token()
    assert world.tokens.known_caller(token) is None
    assert world.issuer.requests == []
    caller = world.tokens.caller(token)
    assert world.tokens.known_caller(token) == caller
    assert world.tokens.known_caller(world.token(sub="user-2")) is not None
    assert world.tokens.known_caller(signer("second").token(world.issuer.claims())) is None
    assert world.issuer.fetches == 1
    with pytest.raises(NotAuthenticated):
        world.tokens.known_caller(world.token(exp=1))


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
    tokens = OidcTokens(world.settings, keys, clock=lambda: now[0])
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
        tokens = world.limited_reader(cache_size=cached)
        assert [tokens.caller(token).id[-1] for token in (*three, *reversed(three))] == list("012210")
        assert len(checks) == expected


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
        ({"gate": False}, "did not answer in full within 1 s"),
        ({"drip_s": 0.1}, "did not answer in full within 1 s"),
        ({"discovery": {"issuer": "https://evil.example.com"}}, "of another issuer"),
        ({"discovery": {"jwks_uri": "http://keys.example.com/keys"}}, "must begin with https://"),
        ({"discovery": {"jwks_uri": "file:///etc/passwd"}}, "must be an address"),
        ({"discovery": {"jwks_uri": 7}}, "must be an address"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_is_none_is_told(world: World, behaviour: dict[str, Any], told: str) -> None:
    for name, value in behaviour.items():
        if name == "gate":
            world.issuer.gate.clear()
        else:
            setattr(world.issuer, name, value)
    tokens = world.reader(timeout_s=1.0 if behaviour.keys() & {"gate", "drip_s"} else 30.0)
    with pytest.raises(IssuerUnavailable, match=told):
        tokens.caller(world.token())


def test_an_issuer_that_nobody_vouches_for_is_asked_nothing(tmp_path: Path) -> None:
    with fake_issuer(signer(), tls=certified(tmp_path).context()) as issuer:
        world = world_of(issuer, signer())
        with pytest.raises(IssuerUnavailable, match=r"(?i)certificate"):
            world.tokens.caller(world.token())
        assert issuer.requests == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_this_machine_needs_no_certificate(host: str) -> None:
    OidcTokens.of(Settings(oidc_issuer=f"http://{host}:8443/realm", oidc_audience=AUDIENCE))
