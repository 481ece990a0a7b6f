"""The identity provider of the tests refuses what a real one refuses, so that a test which passes proves something."""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.identity_provider import ACCESS_TOKEN, EXCHANGE, Person, Realm, identity_provider

HOME, HERE, THERE = "http://127.0.0.1:1/back", "http://here.example/mcp", "http://there.example/mcp"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Desk:
    """A client with a secret, and a person with a browser."""

    def __init__(self, realm: Realm, ann: Person) -> None:
        self.realm, self.ann = realm, ann
        self.secret = realm.add_client("desk", HOME)

    def way_back(self, **changes: str | None) -> Any:
        """What the browser brings back; None: the realm sends it nowhere."""
        asked = {
            "response_type": "code",
            "client_id": "desk",
            "redirect_uri": HOME,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": HERE,
            "state": "s",
        }
        query = {name: value for name, value in (asked | changes).items() if value is not None}
        answer = self.ann.open(str(httpx2.URL(f"{self.realm.issuer}/authorize", params=query)), HOME)
        return dict(answer.next_request.url.params) if answer.next_request else None

    def ask(self, path: str, **given: str) -> Any:
        auth = ("desk", given.pop("secret", self.secret))
        return httpx2.post(f"{self.realm.issuer}/{path}", data=given, auth=auth).json()

    def tokens(self, **changes: str) -> Any:
        given = {"code": self.way_back()["code"], "redirect_uri": HOME, "code_verifier": VERIFIER}
        return self.ask("token", grant_type="authorization_code", **(given | changes))

    def renew(self, tokens: Any) -> Any:
        return self.ask("token", grant_type="refresh_token", refresh_token=tokens["refresh_token"])

    def exchange(self, token: str, audience: str) -> Any:
        shown = {"subject_token": token, "subject_token_type": ACCESS_TOKEN}
        return self.ask("token", grant_type=EXCHANGE, resource=audience, **shown)


@pytest.fixture
def realms() -> Iterator[list[Realm]]:
    with identity_provider("main", "other") as made:
        yield made


@pytest.fixture
def desk(realms: list[Realm]) -> Iterator[Desk]:
    with Person("ann") as ann:
        yield Desk(realms[0], ann)


def test_a_code_becomes_tokens_for_the_resource(desk: Desk) -> None:
    back = desk.way_back()
    assert (back["state"], back["iss"]) == ("s", desk.realm.issuer)
    claims = desk.realm.claims(desk.tokens()["access_token"])
    assert claims is not None
    assert (claims["sub"], claims["aud"], claims["client_id"]) == ("ann@main", HERE, "desk")
    assert desk.realm.asked.count("login") == 1, "the browser has a session"


def test_what_is_not_quite_right_is_refused(desk: Desk) -> None:
    for changes, error in (
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"resource": None}, "invalid_target"),
    ):
        assert desk.way_back(**changes)["error"] == error
    assert desk.way_back(redirect_uri=f"{HOME}/more") is None
    assert desk.way_back(client_id="nobody") is None
    for given in ({"code_verifier": "w" * 43}, {"redirect_uri": f"{HOME}/more"}, {"code": "made-up"}):
        assert desk.tokens(**given) == {"error": "invalid_grant"}
    assert desk.tokens(resource=THERE) == {"error": "invalid_target"}
    assert desk.tokens(secret="guess") == {"error": "invalid_client"}  # noqa: S106


def test_what_is_used_again_ends_the_login(desk: Desk) -> None:
    first = desk.tokens()
    second = desk.renew(first)
    assert desk.realm.claims(second["access_token"])
    assert desk.renew(first) == {"error": "invalid_grant"}
    assert desk.realm.claims(second["access_token"]) is None
    assert desk.renew(second) == {"error": "invalid_grant"}
    assert [event.what for event in desk.realm.events] == ["issued", "refreshed", "reused"]


def test_a_revoked_login_takes_its_tokens_along(desk: Desk) -> None:
    one, two = desk.tokens(), desk.tokens()
    assert desk.ask("revoke", token=one["refresh_token"]) == {}
    assert desk.realm.claims(one["access_token"]) is None
    assert desk.realm.claims(two["access_token"])


def test_tokens_are_exchanged_as_the_policy_says(desk: Desk, realms: list[Realm]) -> None:
    main, other = realms
    token = desk.tokens()["access_token"]
    assert desk.exchange(token, THERE) == {"error": "invalid_target"}
    main.may_exchange.add(("desk", HERE, THERE))
    made = main.claims(desk.exchange(token, THERE)["access_token"])
    assert made is not None
    assert (made["sub"], made["aud"], made["act"]) == ("ann@main", THERE, {"sub": "desk"})
    assert desk.exchange(main.issue("ann", THERE), THERE) == {"error": "invalid_target"}
    strange = other.issue("bob", HERE)
    assert desk.exchange(strange, THERE) == {"error": "invalid_request"}
    main.trusted.append(other)
    made = main.claims(desk.exchange(strange, THERE)["access_token"])
    assert made is not None
    assert made["sub"] == "bob@main"
