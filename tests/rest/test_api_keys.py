"""Keys over REST: nobody makes one that may more than their own, and its text is told once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.fake_issuer import AUDIENCE, fake_issuer, signer
from tests.service import Served, agent, assert_good, assert_problem, ingest, served
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.errors import NotAllowed, UnknownName
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

NEW = {"name": "bot", "scopes": ["read"]}


def test_a_new_key_is_good_at_once_until_it_is_revoked(guarded: Served) -> None:
    admin = guarded.admin()
    ingest(admin, "s", agent("a"), agent("b", visible_to=["crew"]))
    made = assert_good(admin.post("/v1/keys", json={**NEW, "groups": ["crew"], "expires_in_days": 2}))
    holder = guarded.client(made["key"])
    assert [each["id"] for each in assert_good(holder.get("/v1/agents"))["agents"]] == ["a", "b"]
    assert abs(datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC) - timedelta(days=2)) < timedelta(hours=1)
    listed = assert_good(admin.get("/v1/keys"))["keys"]
    assert listed[-1] == {name: value for name, value in made.items() if name != "key"}
    assert made["key"] not in str(listed) + guarded.log
    assert assert_good(admin.delete(f"/v1/keys/{made['id']}"))["state"] == "revoked"
    assert holder.get("/v1/agents").status_code == 401
    assert_problem(admin.delete("/v1/keys/nothing"), 404, UnknownName)


def test_nobody_makes_a_key_that_may_more(guarded: Served) -> None:
    """Neither in scopes, nor in what it sees, nor in time."""
    admin = guarded.caller("admin", "read", everything=True)
    assert_good(admin.post("/v1/keys", json=NEW))
    assert_problem(admin.post("/v1/keys", json={**NEW, "scopes": ["read", "write"]}), 403, NotAllowed)
    limited = guarded.caller("admin", "read", groups=("crew",))
    assert_problem(limited.post("/v1/keys", json=NEW), 403, NotAllowed)
    assert_problem(limited.get("/v1/keys"), 403, NotAllowed)
    assert guarded.keys
    text = guarded.keys.create("short", ["admin", "read"], everything=True, expires_in=timedelta(days=3))[1]
    short = guarded.client(text)
    assert_problem(short.post("/v1/keys", json=NEW), 403, NotAllowed)
    assert_problem(short.post("/v1/keys", json={**NEW, "expires_in_days": 4}), 403, NotAllowed)
    assert_good(short.post("/v1/keys", json={**NEW, "expires_in_days": 1}))


def test_who_shows_a_token_makes_keys_that_end(tmp_path: Path) -> None:
    """The issuer cannot end such a key with the person."""
    own = signer()
    with fake_issuer(own) as issuer:
        settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE, oidc_everything_group="admins")
        with served(auth=True, folder=tmp_path, settings=settings) as service:
            claims = issuer.claims(groups=["admins"], scope="openid waygraph:read waygraph:admin")
            person = service.client(own.token(claims))
            for days in (None, 90.5):
                told = assert_problem(person.post("/v1/keys", json={**NEW, "expires_in_days": days}), 403, NotAllowed)
                assert "90 days" in told["detail"]
            assert assert_good(person.post("/v1/keys", json={**NEW, "expires_in_days": 90}))["expires_at"]


def test_where_nobody_is_asked_the_first_key_alone_is_made(tmp_path: Path) -> None:
    """Else whoever reaches the service makes keys, or ends those of others, that count when it asks again."""
    with served(settings=Settings(data_dir=str(tmp_path))) as service:
        client = service.client()
        made = assert_good(client.post("/v1/keys", json=NEW))
        told = assert_problem(client.post("/v1/keys", json=NEW), 403, NotAllowed)
        assert "waygraph keys" in told["detail"]
        assert_problem(client.delete(f"/v1/keys/{made['id']}"), 403, NotAllowed)
        assert [each["state"] for each in assert_good(client.get("/v1/keys"))["keys"]] == ["active"]


def test_both_registries_make_keys_in_one_file(tmp_path: Path) -> None:
    """A library user does here what a client does over a service."""
    settings = Settings(data_dir=str(tmp_path))
    with served(tmp_path / "r.grafeo", settings=settings) as service, Registry.open(service.url, environ={}) as there:
        ingest(service.client(), "s", agent("a"))
        other = there.operator.create_key("one", ["route"], everything=True)
        here = service.registry.operator.create_key("two", ["read"], ["crew"], expires_in_days=1)
        assert KeyFile(tmp_path / "keys.json").find(other.key)
        assert there.operator.api_keys() == service.registry.operator.api_keys()
        assert [key.name for key in there.operator.api_keys()] == ["one", "two"]
        assert repr(here.key) not in repr(here)
        assert there.operator.usage_days() == service.registry.operator.usage_days() == []
        assert there.operator.search_gaps() == service.registry.operator.search_gaps()
    with (
        served(tmp_path / "r.grafeo", auth=True, folder=tmp_path, settings=settings) as service,
        Registry.open(service.url, environ={"WAYGRAPH_API_KEY": service.key(everything=True)}) as there,
    ):
        assert there.operator.revoke_key(here.id).state == "revoked"
