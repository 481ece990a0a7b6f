"""Who may call, and what: scopes, keys, tokens, limits."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.fake_issuer import AUDIENCE, fake_issuer, signer
from tests.gateway_catalog import by_hand
from tests.observed_service import samples
from tests.service import Served, agent, assert_good, assert_problem, ingest, manifest, served
from waygraph.api.rest import bootstrap
from waygraph.registry.access.visibility import SCOPES
from waygraph.registry.model.errors import InvalidSetting, NotAllowed, NotAuthenticated, TooManyRequests
from waygraph.registry.model.settings import Settings

Call = Callable[[httpx2.Client], httpx2.Response]
SERVER = "1.0.0.127/a"
"""The agent `a` in the list of servers, as this service names it by its address."""


def _new_key(client: httpx2.Client) -> str:
    """The id of a key that the caller makes, if it may."""
    answer = client.post("/v1/keys", json={"name": "one", "scopes": ["admin"]})
    return str(answer.json()["id"]) if answer.status_code == 200 else "none"


OPERATIONS: dict[str, tuple[str, Call]] = {
    "route": ("route", lambda c: c.post("/v1/route", json={"text": "look"})),
    "route_batch": ("route", lambda c: c.post("/v1/route/batch", json={"requests": [{"text": "look"}]})),
    "why": ("route", lambda c: c.post("/v1/route/why", json={"text": "look", "id": "a"})),
    "search_tools": ("route", lambda c: c.post("/v1/tools/search", json={"text": "look"})),
    "recipes": ("route", lambda c: c.get("/v1/recipes")),
    "agents": ("read", lambda c: c.get("/v1/agents")),
    "agent": ("read", lambda c: c.get("/v1/agents/a")),
    "tools": ("read", lambda c: c.get("/v1/tools")),
    "tool": ("read", lambda c: c.get("/v1/tools/a/look")),
    "taxonomy": ("read", lambda c: c.get("/v1/taxonomy")),
    "taxonomy_tree": ("read", lambda c: c.get("/v1/taxonomy/tree")),
    "taxonomies": ("read", lambda c: c.get("/v1/taxonomies")),
    "map": ("read", lambda c: c.get("/v1/map")),
    "graph": ("read", lambda c: c.get("/v1/graph", params={"around": "agent:a"})),
    "toolsets": ("read", lambda c: c.get("/v1/toolsets")),
    "toolset": ("read", lambda c: c.get("/v1/toolsets/some")),
    "set_toolset": ("write", lambda c: c.put("/v1/toolsets/some", json={"agents": ["a"]})),
    "remove_toolset": ("write", lambda c: c.delete("/v1/toolsets/other")),
    "use_taxonomy": ("write", lambda c: c.put("/v1/taxonomy", json={"name": "main"})),
    "sources": ("read", lambda c: c.get("/v1/sources")),
    "changes": ("read", lambda c: c.get("/v1/changes")),
    "status": ("read", lambda c: c.get("/v1/status")),
    "usage": ("admin", lambda c: c.get("/v1/usage")),
    "usage_days": ("admin", lambda c: c.get("/v1/usage/days")),
    "search_gaps": ("admin", lambda c: c.get("/v1/usage/gaps")),
    "keys": ("admin", lambda c: c.get("/v1/keys")),
    "create_key": ("admin", lambda c: c.post("/v1/keys", json={"name": "one", "scopes": ["admin"]})),
    "revoke_key": ("admin", lambda c: c.delete(f"/v1/keys/{_new_key(c)}")),
    "service": ("admin", lambda c: c.get("/v1/service")),
    "evaluations": ("admin", lambda c: c.get("/v1/evaluations")),
    "export": ("read admin", lambda c: c.get("/v1/export")),
    "metrics": ("read", lambda c: c.get("/metrics")),
    "manifests": ("write", lambda c: c.post("/v1/manifests", json=manifest("s", agent("a", "look"), dry_run=True))),
    "approve": ("write", lambda c: c.post("/v1/approvals", json={"names": ["a"]})),
    "reject": ("write", lambda c: c.post("/v1/rejections", json={"names": ["a"], "reason": "odd"})),
    "waiting": ("read", lambda c: c.get("/v1/waiting")),
    "set_agent": ("write", lambda c: c.patch("/v1/agents/a", json={"pinned": False})),
    "set_tool": ("write", lambda c: c.patch("/v1/tools/a/look", json={"description": "It looks."})),
    "remove_agent": ("write", lambda c: c.delete("/v1/agents/a")),
    "forget_source": ("write", lambda c: c.delete("/v1/sources/s")),
    "logins": ("use", lambda c: c.get("/v1/logins")),
    "recorded_calls": ("use", lambda c: c.get("/v1/calls")),
    "forget_login": ("use", lambda c: c.delete("/v1/logins/a")),
    "cypher": ("cypher admin", lambda c: c.post("/v1/cypher", json={"statement": "RETURN 1"})),
    "healthz": ("", lambda c: c.get("/healthz")),
    "readyz": ("", lambda c: c.get("/readyz")),
    "search_resources": ("route", lambda c: c.post("/ard/search", json={"query": {"text": "look"}})),
    "servers": ("read", lambda c: c.get("/v0.1/servers")),
    "server_versions": ("read", lambda c: c.get(f"/v0.1/servers/{SERVER}/versions")),
    "server": ("read", lambda c: c.get(f"/v0.1/servers/{SERVER}/versions/latest")),
    "ai_catalog": ("", lambda c: c.get("/.well-known/ai-catalog.json")),
    "ard_manifest": ("", lambda c: c.get("/.well-known/ard.json")),
    "resource": ("read", lambda c: c.get("/ard/agents/urn%3Aair%3A127.0.0.1%3Aregistry%3Awaygraph")),
    "server_card": ("", lambda c: c.get("/mcp/server-card")),
}
"""Operation → the scopes that it needs; empty: anybody."""
NEED_EVERYTHING = {
    *("export", "metrics", "cypher", "usage", "usage_days", "search_gaps", "service", "evaluations"),
    *("keys", "create_key", "revoke_key", "set_toolset", "remove_toolset", "use_taxonomy", "taxonomies"),
}


@pytest.fixture
def filled(guarded: Served) -> Served:
    ingest(guarded.admin(), "s", agent("a", "look"), agent("b"))
    guarded.registry.build_taxonomy(by_hand({"some": ("a",)}))
    for name in ("some", "other"):
        guarded.registry.operator.set_toolset(name, agents=["a"])
    return guarded


def test_every_operation_is_in_the_table(guarded: Served) -> None:
    document = guarded.client().get("/openapi.json").json()
    found = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    # The first is tested where a tool runs (gateway/test_rest_calls.py), the second below.
    assert found == set(OPERATIONS) | {"call_tool", "sync_source"}


def test_a_sync_needs_who_may_write_and_sees_everything(filled: Served) -> None:
    """Before it is looked whether the source is followed: the answer tells nothing of it."""
    for caller in (filled.caller("read", "admin", everything=True), filled.caller("write", "admin", groups=("g",))):
        assert_problem(caller.post("/v1/sources/s/sync"), 403, NotAllowed)
    assert_problem(filled.client().post("/v1/sources/s/sync"), 401, NotAuthenticated)
    told = assert_problem(filled.caller("write", everything=True).post("/v1/sources/s/sync"), 422, InvalidSetting)
    assert "waygraph ingest s" in told["detail"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_needs_its_scope_and_no_other(filled: Served, operation: str) -> None:
    """A key without one of its scopes is refused, and one of them alone is not; nobody without a key is let in."""
    scopes, call = OPERATIONS[operation][0].split(), OPERATIONS[operation][1]
    if scopes:
        for needed in scopes:
            others = tuple(scope for scope in SCOPES if scope != needed)
            told = assert_problem(call(filled.caller(*others, everything=True)), 403, NotAllowed)
            assert repr(needed) in told["detail"]
        for other in set(SCOPES).difference(scopes):
            assert_problem(call(filled.caller(other, everything=True)), 403, NotAllowed)
        assert_problem(call(filled.client()), 401, NotAuthenticated)
        assert call(filled.caller(*scopes, everything=True)).status_code == 200
    else:
        assert call(filled.client()).status_code == 200


@pytest.mark.parametrize("operation", [name for name, (scope, _) in OPERATIONS.items() if scope])
def test_what_cannot_be_limited_needs_a_caller_who_sees_everything(filled: Served, operation: str) -> None:
    response = OPERATIONS[operation][1](filled.caller(groups=("g",)))
    if operation in NEED_EVERYTHING:
        assert "sees everything" in assert_problem(response, 403, NotAllowed)["detail"]
    else:
        assert response.status_code == 200


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_export_is_restored_by_who_sees_everything(filled: Served, dry_run: bool) -> None:
    """It says ranks, policies, approvals and settings of agents that others may not see. To others it is a document of
    its sources, which are the operators'.
    """
    admin = filled.admin()
    before = admin.get("/v1/export").json()
    said = {**before, "sources": [{**before["sources"][0], "rank": 7, "policy": "strict"}]}
    asked = {"source": "x", "manifest": said, "dry_run": dry_run}
    some = filled.caller("write", groups=("g",))
    refused = some.post("/v1/manifests", json={**asked, "kind": "export"})
    assert "kind 'export' needs a caller who sees everything" in assert_problem(refused, 403, NotAllowed)["detail"]
    assert '"outcome":"refused"' in filled.log or '"outcome": "refused"' in filled.log
    assert_problem(some.post("/v1/manifests", json={**asked, "source": "y"}), 403, NotAllowed)
    assert admin.get("/v1/export").json()["sources"] == before["sources"]
    assert admin.post("/v1/manifests", json={**asked, "kind": "export"}).status_code == 200
    restored = admin.get("/v1/export").json()["sources"][0]
    assert (restored["rank"], restored["policy"]) == ((0, "accept") if dry_run else (7, "strict"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "wg_000000000000_x"},
        {"Authorization": f"Bearer wg_{'0' * 12}_{'x' * 43}"},
        {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},
        {"X-API-Key": ""},
        {"X-API-Key": "x" * 60_000},
        {"X-API-Key": "\u00ff\u00fe"},
        {"Cookie": "key=value"},
    ],
)
def test_who_shows_no_good_key_is_not_known(filled: Served, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    told = assert_problem(filled.client().get("/v1/agents", headers=raw), 401, NotAuthenticated)
    assert told["facts"] == {}


def test_a_key_in_the_address_is_no_key(filled: Served) -> None:
    key = filled.key("read")
    for name in ("key", "api_key", "access_token"):
        assert_problem(filled.client().get("/v1/agents", params={name: key}), 401, NotAuthenticated)
    assert key.split("_", 2)[2] not in filled.log


def test_a_keys_file_that_is_gone_lets_nobody_in(filled: Served) -> None:
    assert filled.keys
    client = filled.caller("read")
    assert_good(client.get("/v1/agents"))
    path = filled.keys.path
    content = path.read_bytes()
    for damage in (path.unlink, lambda: path.write_bytes(b"{")):
        damage()
        told = assert_problem(client.get("/v1/agents"), 500, "keys-unusable")
        assert str(path) not in json.dumps(told)
    path.write_bytes(content)
    path.chmod(0o600)
    assert_good(client.get("/v1/agents"))
    assert str(path) in filled.log


def test_tokens_of_an_issuer_are_callers(tmp_path: Path) -> None:
    """Their groups decide what they see, their scopes what they may do; keys are good beside them."""
    own = signer()
    with fake_issuer(own) as issuer:
        settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE, oidc_everything_group="admins")
        with served(auth=True, folder=tmp_path, settings=settings) as service:

            def caller(**claims: object) -> httpx2.Client:
                return service.client(own.token(issuer.claims(**claims)))

            ingest(service.admin(), "s", agent("open"), agent("money", visible_to=["finance"]))
            seen = [each["id"] for each in assert_good(caller().get("/v1/agents"))["agents"]]
            assert seen == ["money", "open"]
            stranger = caller(groups=["kitchen"])
            assert [each["id"] for each in assert_good(stranger.get("/v1/agents"))["agents"]] == ["open"]
            assert_problem(stranger.get("/v1/agents/money"), 404, "unknown-name")
            assert_problem(stranger.delete("/v1/agents/open"), 403, NotAllowed)
            operator = "openid waygraph:read waygraph:admin"
            assert_problem(caller(groups=["kitchen"], scope=operator).get("/v1/export"), 403, NotAllowed)
            assert caller(groups=["admins"], scope=operator).get("/v1/export").status_code == 200
            assert_problem(caller(scope="openid").get("/v1/agents"), 403, NotAllowed)
            told = assert_problem(caller(exp=1).get("/v1/agents"), 401, NotAuthenticated)
            assert "token" in told["detail"]


def test_an_issuer_that_does_not_answer_is_told_so(tmp_path: Path) -> None:
    own = signer()
    with fake_issuer(own) as issuer:
        token = own.token(issuer.claims())
        issuer.status = 500
        settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE)
        with served(auth=True, folder=tmp_path, settings=settings) as service:
            ingest(service.admin(), "s", agent("open"))
            assert_problem(service.client(token).get("/v1/agents"), 503, "issuer-unavailable")
            assert_good(service.caller("read").get("/v1/agents"))


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    """Each key has a limit of its own; the requests of a batch count each."""
    settings = Settings(rate_per_minute=6, rate_burst=4)
    with served(auth=True, folder=tmp_path, settings=settings) as service:
        ingest(service.admin(), "s", agent("a"))
        client = service.caller("read", "route")
        for _ in range(4):
            assert_good(client.get("/v1/agents"))
        response = client.get("/v1/agents")
        told = assert_problem(response, 429, TooManyRequests)
        assert told["retryable"]
        assert 1 <= int(response.headers["retry-after"]) <= 10
        assert 0 < told["facts"]["retry_after_s"] <= 10
        assert_good(service.caller("read").get("/v1/agents"))
        assert_good(client.get("/healthz"))
        batch = {"requests": [{"text": "a"}] * 5}
        answers = assert_good(service.caller("route").post("/v1/route/batch", json=batch))["answers"]
        codes = [answer["problem"] and answer["problem"]["code"] for answer in answers]
        assert codes == [None, None, None, None, "too-many-requests"]


def test_guessing_is_slowed_by_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After too many failures an address is told to wait; a good key from there is taken all the same."""
    monkeypatch.setattr(bootstrap, "FAILURES_BURST", 3)
    settings = Settings(failures_per_minute=6)
    with served(auth=True, folder=tmp_path, settings=settings) as service:
        client = service.caller("route")
        for number in range(3):
            guess = service.client(f"wg_{number:012d}_{'x' * 43}")
            assert_problem(guess.get("/v1/agents"), 401, NotAuthenticated)
        assert_problem(service.client("wg_guess").get("/v1/agents"), 429, TooManyRequests)
        assert_good(client.get("/v1/recipes"))


def test_a_key_is_told_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in answers, headers, logs, audit or metrics, whatever is done with it; nor is a wrong one."""
    audit = tmp_path / "audit.jsonl"
    monkeypatch.setattr(bootstrap, "FAILURES_BURST", 100)
    settings = Settings(audit_file=str(audit), log_level="debug")
    with served(auth=True, folder=tmp_path, settings=settings) as service:
        good, wrong = service.key(everything=True), f"wg_{'a' * 12}_{'S3cretS3cret' * 3}1234567"
        ingest(service.client(good), "money", agent("bank"))
        told: list[str] = []
        for key in (good, wrong):
            client = service.client(key)
            for _, call in OPERATIONS.values():
                told.append(_whole(call(client)))
            told.append(_whole(client.get(f"/v1/agents/{key}")))
            told.append(_whole(client.get("/v1/agents", params={"cursor": key})))
            told.append(_whole(client.post("/v1/cypher", json={"statement": f"RETURN '{key}' AS x, broken("})))
        told.append(service.client(good).get("/metrics").text)
        logged = service.log + audit.read_text(encoding="utf-8")
    secrets = [key.split("_", 2)[2] for key in (good, wrong)]  # one may hold `_` itself
    assert not [secret for secret in secrets if secret in logged]
    shown = [text for text in told if any(secret in text for secret in secrets)]
    assert all("is not known" in text or "CYPHER" in text.upper() for text in shown)
    assert samples(told[-1].encode())["waygraph_registry_up"] == 1


def _whole(response: httpx2.Response) -> str:
    return "\n".join((*(f"{name}: {value}" for name, value in response.headers.items()), response.text))
