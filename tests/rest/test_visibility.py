"""Nobody learns of what they may not see: random catalogues, groups and callers, and every operation of the service.

What is invisible is named by random words that stand nowhere else, so that a search over the bytes of all answers
decides. A cursor's bytes are decoded first.
"""

import base64
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.gateway_catalog import by_hand
from tests.rest.test_access import OPERATIONS
from tests.service import Served, assert_good, assert_problem, manifest, served
from waygraph.registry.access.visibility import MAX_FLAGS, MAX_OWNERS
from waygraph.registry.model.errors import NotAllowed, UnknownName
from waygraph.registry.model.nouns import notices_of
from waygraph.registry.model.settings import Settings
from waygraph.registry.operators.approval import HINT

GROUPS = ("red", "green", "blue")
SHARED = "look"
"""A word of every agent, so that all of them are found by it."""
TRADES = ("pay_out", "send_off")
STATUSES = ("known", "online", "unreachable since 2026-01-01T00:00:00+00:00: refused", "failing: no list")


@dataclass(frozen=True)
class Secret:
    """An agent whose every text holds a word of its own."""

    word: str
    tools: int
    visible_to: tuple[str, ...]
    operator: tuple[str, ...] | None
    hidden: bool
    pinned: bool
    source: str
    status: str
    changes: bool
    """Whether its source says something else of it, and a tool more, after the first time."""
    trade: str
    """The name of one more tool, which others may have too; empty: it has none."""
    lure: str
    """The name of a tool that all of its own offer to replace."""

    @property
    def all_tools(self) -> int:
        """In the end."""
        return self.tools + self.changes + bool(self.trade)

    def seen_by(self, groups: Sequence[str] | None) -> bool:
        if groups is None:
            return True
        wanted = self.visible_to if self.operator is None else self.operator
        return not self.hidden and (not wanted or not set(wanted).isdisjoint(groups))

    @property
    def url(self) -> dict[str, str]:
        return {"type": "http", "url": f"https://{self.word}.example/mcp"}

    def record(self, *, later: bool = False) -> dict[str, Any]:
        changed = later and self.changes
        names = [f"{self.word}_{number}" for number in range(self.tools + changed)]
        tools = [
            {
                "name": name,
                "description": f"{SHARED} for {self.word}{' once more' * changed}, instead of `{self.lure}`",
                "inputSchema": {"type": "object", "properties": {self.word: {"type": "string"}}},
                "tags": [self.word],
            }
            for name in (*names, *([self.trade] if self.trade else []))
        ]
        return {
            "id": self.word,
            "name": f"Agent {self.word}",
            "description": f"{SHARED} by {self.word}",
            "tags": ["shared", self.word],
            "transport": self.url,
            "visible_to": list(self.visible_to),
            "tools": tools,
        }


@dataclass(frozen=True)
class World:
    secrets: tuple[Secret, ...]
    callers: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...] = field(default=())
    policies: tuple[str, ...] = field(default=())
    """Of the sources."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Agents in sources, each seen by some; callers of some groups. Words are long and of letters that rank alike."""
    drawn = draw(st.lists(st.text("bdghjkpqvwxz", min_size=12, max_size=12), min_size=6, max_size=11, unique=True))
    split = draw(st.integers(1, 3))
    sources, words = drawn[:split], drawn[split:]
    some = st.lists(st.sampled_from(GROUPS), max_size=2, unique=True).map(tuple)
    operator = st.one_of(st.none(), st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2, unique=True).map(tuple))
    secrets = tuple(
        Secret(
            word=word,
            tools=draw(st.integers(0, 3)),
            visible_to=draw(some),
            operator=draw(operator),
            hidden=draw(st.integers(0, 3)) == 0,
            pinned=draw(st.integers(0, 4)) == 0,
            source=draw(st.sampled_from(sources)),
            status=draw(st.sampled_from(STATUSES)),
            changes=draw(st.booleans()),
            trade=draw(st.sampled_from(("", *TRADES))),
            lure=draw(st.sampled_from(TRADES)),
        )
        for word in words
    )
    policies = tuple(draw(st.sampled_from(("accept", "hold", "strict"))) for _ in sources)
    callers = draw(st.lists(some, min_size=1, max_size=2, unique=True))
    return World(secrets=secrets, callers=tuple(callers), sources=tuple(sources), policies=policies)


def crowded() -> World:
    """A tool that puts itself in the place of another one, which more have than are told; some are unseen."""
    first, second, *words = ("".join(pair) * 6 for pair in itertools.combinations("bdghjk", 2))
    plain = partial(Secret, operator=None, hidden=False, pinned=False, status="known", changes=False, lure=TRADES[0])
    owners = [
        plain(word=word, tools=0, visible_to=("red",) if at % 2 else (), source=first, trade=TRADES[0])
        for at, word in enumerate(words[1:])
    ]
    lure = plain(word=words[0], tools=1, visible_to=(), source=second, trade="")
    return World((lure, *owners), ((), ("red",)), (first, second), ("accept", "accept"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all worlds: each leaves it empty."""
    limits = Settings(rate_per_minute=0, failures_per_minute=0)
    with served(auth=True, folder=tmp_path_factory.mktemp("keys"), settings=limits) as service:
        yield service


def fill(service: Served, world: World) -> httpx2.Client:
    """By somebody who sees everything."""
    admin = service.admin()
    for later in (False, True):
        for source, policy in zip(world.sources, world.policies, strict=True):
            own = [secret for secret in world.secrets if secret.source == source]
            if not later or any(secret.changes for secret in own):
                records = [secret.record(later=later) for secret in own]
                assert_good(admin.post("/v1/manifests", json=manifest(source, *records, policy=policy)))
    for secret in world.secrets:
        # A word may come again in a later world: what an operator said of it in an earlier one is taken back.
        visible_to = None if secret.operator is None else list(secret.operator)
        said = {"hidden": secret.hidden, "pinned": secret.pinned, "visible_to": visible_to}
        assert_good(admin.patch(f"/v1/agents/{secret.word}", json=said))
    service.registry.put_statuses({secret.word: secret.status for secret in world.secrets})
    halves = {f"half {number}": [secret.word for secret in world.secrets[number::2]] for number in range(2)}
    groups = {secret.word: [secret.word] for secret in world.secrets} | halves
    service.registry.build_taxonomy(by_hand(groups), private=True, shown_to_all=True)
    for number, words in enumerate(groups.values()):
        callers = GROUPS[: number % len(GROUPS)]
        tools = [f"{word}/{word}_0" for word in words[::2]]
        service.registry.operator.set_toolset(f"set-{number}", tools=tools, agents=words[1::2], callers=callers)
    return admin


def empty(admin: httpx2.Client, world: World) -> None:
    for source in world.sources:
        assert_good(admin.delete(f"/v1/sources/{source}"))


def near(word: str) -> str:
    """A name that is almost it, and does not hold it."""
    return word[:-1] + "y"


def answers(client: httpx2.Client, world: World, groups: Sequence[str]) -> Iterator[httpx2.Response]:
    """Of every operation, asked in ways that would find what is not to be found. No question holds a word of what is
    invisible.
    """
    for _, call in OPERATIONS.values():
        yield call(client)
    words = [secret.word for secret in world.secrets]
    by_words = " ".join(f"{SHARED} {near(word)}" for word in words)
    for recipe in ("hybrid", "lexical", "agents", "tools"):
        asked = {"text": by_words, "limit": 1000, "recipe": recipe, "explain": True, "schema": True}
        yield client.post("/v1/route", json={**asked, "format": "openai"})
        yield client.post("/v1/tools/search", json={**asked, "format": "mcp"})
    yield client.post("/v1/route", json={"steps": [SHARED, by_words], "limit": 50, "explain": True})
    yield client.post("/v1/route", json={"text": SHARED, "filters": {"tags": ["shared"]}, "limit": 50})
    batch = [{"text": SHARED, "limit": 50}, {"text": SHARED, "recipe": "none such"}]
    yield client.post("/v1/route/batch", json={"requests": batch})
    yield from categories(client, [near(word) for word in words])
    yield from toolsets(client, [f"set-{number}" for number in range(len(words) + 2)])
    yield client.get("/v1/tools", params={"schema": True})
    for path in ("/v1/agents", "/v1/tools", "/v1/changes"):
        yield from parts(client, path)
    yield client.get("/v1/changes", params={"since": "2020-01-01"})
    for word in words:
        for path in names(near(word)):
            yield client.get(path)
        yield client.delete(f"/v1/sources/{near(word)}")
    for source in world.sources:
        yield client.delete(f"/v1/sources/{near(source)}")
    for word in words:
        yield client.get("/v1/agents", params={"tag": near(word)})
        yield client.patch(f"/v1/agents/{near(word)}", json={"pinned": True})
        yield client.get("/v1/changes", params={"agent": near(word)})
        yield from (client.post("/v1/approvals", json={"names": [name]}) for name in approvable(near(word)))
        yield client.get("/v1/graph", params={"around": f"agent:{near(word)}"})
    yield from approvals(client, world, groups)
    yield from pictures(client)


def pictures(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """The map, and the graph around all that is on it."""
    drawn = client.get("/v1/map")
    yield drawn
    for kind, key in (("agent", "agents"), ("tool", "tools")):
        around = [f"{kind}:{each['id']}" for each in drawn.json().get(key, ())][:50]
        if around:
            yield client.get("/v1/graph", params={"around": around, "limit": "300"})


def categories(client: httpx2.Client, unknown: Sequence[str]) -> Iterator[httpx2.Response]:
    """Every path of the taxonomy that is told, some that are not, and what is found within them."""
    top = client.get("/v1/taxonomy")
    yield top
    shown = [child["path"] for child in top.json().get("children", ())]
    for path in (*shown, *unknown):
        yield client.get("/v1/taxonomy", params={"path": path})
        yield client.get("/v1/agents", params={"within": path})
        yield client.post("/v1/tools/search", json={"text": SHARED, "filters": {"within": path}})


def toolsets(client: httpx2.Client, unknown: Sequence[str]) -> Iterator[httpx2.Response]:
    """Each that is told, some that are not, and what is found in them."""
    listed = client.get("/v1/toolsets")
    yield listed
    for name in (*(each["name"] for each in listed.json().get("toolsets", ())), *unknown):
        yield client.get(f"/v1/toolsets/{name}")
        yield client.get("/v1/agents", params={"toolset": name})
        yield client.post("/v1/tools/search", json={"text": SHARED, "filters": {"toolset": name}})


def approvable(word: str) -> tuple[str, ...]:
    return word, f"{word}/{word}_0", f"{word}__{word}_0"


def approvals(client: httpx2.Client, world: World, groups: Sequence[str]) -> Iterator[httpx2.Response]:
    """Of all that is visible, which a source may hold beside other things."""
    for source in world.sources:
        yield client.post("/v1/approvals", json={"names": [f"source:{near(source)}"]})
        if any(secret.seen_by(groups) for secret in world.secrets if secret.source == source):
            yield client.post("/v1/approvals", json={"names": [f"source:{source}"]})
    for secret in world.secrets:
        if secret.seen_by(groups):
            yield client.post("/v1/approvals", json={"names": [secret.word]})


def names(word: str) -> list[str]:
    tools = (f"/v1/tools/{word}/{word}_0", f"/v1/tools/{word}__{word}_0")
    return [f"/v1/agents/{word}", f"/v1/tools?agent={word}", *tools]


def parts(client: httpx2.Client, path: str) -> Iterator[httpx2.Response]:
    cursor = ""
    while True:
        response = client.get(path, params={"limit": 2, "cursor": cursor})
        yield response
        if response.status_code != 200 or not (cursor := response.json()["following"]):
            return


def told(response: httpx2.Response) -> str:
    """All that is in an answer, headers too; cursors as what they stand for."""
    text = "\n".join((*(f"{name}: {value}" for name, value in response.headers.items()), response.text))
    cursors = re.findall(r'"following":"([\w-]+)"', text)
    return text + "".join(base64.urlsafe_b64decode(each + "=" * (-len(each) % 4)).decode() for each in cursors)


SEARCHING = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@given(world=worlds())
@SEARCHING
def test_no_answer_tells_of_what_is_invisible(service: Served, world: World) -> None:
    """Whatever is asked, and however: no id, name, tag or text of it, and no source that claims nothing visible."""
    admin = fill(service, world)
    try:
        for groups in world.callers:
            client = service.caller("route", "read", "write", "cypher", "use", groups=groups)
            unseen = [secret.word for secret in world.secrets if not secret.seen_by(groups)]
            seen_sources = {secret.source for secret in world.secrets if secret.seen_by(groups)}
            unseen += [source for source in world.sources if source not in seen_sources]
            for response in answers(client, world, groups):
                text = told(response)
                assert response.status_code < 500, text
                assert not [word for word in unseen if word in text], (response.request, text)
    finally:
        empty(admin, world)


@given(world=worlds())
@example(world=crowded())
@SEARCHING
def test_every_number_is_that_of_what_is_visible(service: Served, world: World) -> None:
    """Lists, counts and routes hold what the caller sees: all of it, and nothing else."""
    admin = fill(service, world)
    try:
        for groups in (None, *world.callers):
            client = admin if groups is None else service.caller(groups=groups)
            seen = [secret for secret in world.secrets if secret.seen_by(groups)]
            assert_counts(client, seen)
            waiting = Waiting.of(admin)
            routable = {secret.word for secret in seen if not secret.hidden} - waiting.agents
            found = assert_good(client.post("/v1/route", json={"text": SHARED, "limit": 1000}))
            shown = {match["agent"]["id"] for part in ("matches", "pinned") for match in found[part]}
            assert shown == routable
            assert_categories(client, routable)
            tools = assert_good(client.post("/v1/tools/search", json={"text": SHARED, "limit": 1000}))["matches"]
            callable_tools = waiting.others
            assert {match["tool"]["id"] for match in tools} == {
                tool for tool in callable_tools if tool.partition("/")[0] in routable
            }
            assert_standings(client, seen, waiting)
            assert_flags(service, client, {secret.word for secret in seen})
    finally:
        empty(admin, world)


def assert_categories(client: httpx2.Client, routable: Collection[str]) -> None:
    """Those of what is placed and may be found, each with as many; and as many are found within each."""
    response = client.get("/v1/taxonomy")
    if response.status_code == 404:
        assert_problem(response, 404, "unknown-name")
        return
    root = assert_good(response)
    words = {child["path"] for child in root["children"] if child["path"] in routable}
    assert words <= set(routable)
    assert root["count"] == len(words)
    for child in root["children"]:
        assert set(child["examples"]) <= words
        within = {"text": SHARED, "limit": 1000, "filters": {"within": child["path"]}}
        route = assert_good(client.post("/v1/route", json=within))
        found = {match["agent"]["id"] for part in ("matches", "pinned") for match in route[part]}
        assert len(found) == child["count"]
        assert found <= words


def assert_counts(client: httpx2.Client, seen: Sequence[Secret]) -> None:
    status = assert_good(client.get("/v1/status"))
    sources = assert_good(client.get("/v1/sources"))["sources"]
    listed = assert_good(client.get("/v1/agents"))["agents"]
    tools = assert_good(client.get("/v1/tools"))["tools"]
    catalogue = assert_good(client.get("/.well-known/ai-catalog.json"))["entries"]
    assert (status["agents"], status["tools"]) == (len(seen), sum(secret.all_tools for secret in seen))
    claimed = {source["name"]: set(source["agents"]) for source in sources if source["agents"]}
    by_source = {secret.source: {each.word for each in seen if each.source == secret.source} for secret in seen}
    assert claimed == by_source
    assert {each["id"]: each["tools"] for each in listed} == {secret.word: secret.all_tools for secret in seen}
    assert len(tools) == status["tools"]
    assert len(catalogue) == sum(not each["pending"] for each in listed) + 3
    asked = {"query": {"text": " ".join(secret.word for secret in seen) or "x"}, "pageSize": 100}
    found = assert_good(client.post("/ard/search", json=asked))["results"]
    assert {each["identifier"].rpartition(":")[2] for each in found} <= {secret.word for secret in seen}
    for secret in seen:
        assert len(assert_good(client.get(f"/v1/agents/{secret.word}"))["tools"]) == secret.all_tools


@dataclass(frozen=True)
class Waiting:
    """What waits for approval, as who sees everything is told: agents, tools, and the tools that do not."""

    agents: set[str]
    tools: set[str]
    others: set[str]

    @staticmethod
    def of(admin: httpx2.Client) -> "Waiting":
        agents = assert_good(admin.get("/v1/agents", params={"limit": 1000}))["agents"]
        tools = assert_good(admin.get("/v1/tools", params={"limit": 1000}))["tools"]
        return Waiting(
            agents={each["id"] for each in agents if each["pending"]},
            tools={each["id"] for each in tools if each["pending"]},
            others={each["id"] for each in tools if not each["pending"]},
        )


def assert_standings(client: httpx2.Client, seen: Sequence[Secret], waiting: Waiting) -> None:
    lists = [assert_good(client.get(f"/v1/{nouns}", params={"limit": 1000}))[nouns] for nouns in ("agents", "tools")]
    flags = {each["id"]: each["flags"] for entities in lists for each in entities}
    noted = [name for name in sorted(flags, key=lambda name: name.split("/")) for _ in notices_of(flags[name])]
    for source in assert_good(client.get("/v1/sources"))["sources"]:
        own = [secret for secret in seen if secret.source == source["name"]]
        words = {secret.word for secret in own}
        of_status = {
            name: sum(secret.status.startswith(name) for secret in own)
            for name in ("online", "unreachable", "failing", "known")
        }
        ids = [each for each in noted if each.partition("/")[0] in words]
        assert source["standing"] == {
            **of_status,
            "pending": len(words & waiting.agents),
            "pending_tools": sum(tool.partition("/")[0] in words for tool in waiting.tools),
            "rejections": 0,
            "notices": len(ids),
            "notices_at": ids[0] if ids else "",
        }


def assert_flags(service: Served, client: httpx2.Client, seen: set[str]) -> None:
    """Each tells of those agents alone that are seen, of so many; one that tells of no other is not there."""
    listed = assert_good(client.get("/v1/tools", params={"limit": 1000}))["tools"]
    kept = service.registry.store.look(lambda index: index.tools([tool["id"] for tool in listed]))
    for tool, whole in zip(listed, kept, strict=True):
        owners = [[owner for owner in told_of(flag) if owner in seen][:MAX_OWNERS] for flag in whole.flags]
        assert [told_of(flag) for flag in tool["flags"]] == [each for each in owners if each][:MAX_FLAGS]


def told_of(flag: str) -> list[str]:
    return re.findall("[bdghjkpqvwxz]{12}", flag)


@given(world=worlds())
@SEARCHING
def test_what_is_invisible_is_as_if_it_never_was(service: Served, world: World) -> None:
    """Asked for by its very name it is unknown, in the same words as a name that never was; nothing changes it."""
    admin = fill(service, world)
    try:
        for groups in world.callers:
            client = service.caller(groups=groups)
            for secret in (each for each in world.secrets if not each.seen_by(groups)):
                for path in names(secret.word):
                    assert_problem(client.get(path), 404, UnknownName)
                assert_same_as_nobody(client, secret.word)
                assert assert_good(client.get("/v1/changes", params={"agent": secret.word}))["changes"] == []
                assert_refused(client, world, secret)
                assert_apart(service.caller("read", "write", groups=groups), admin, secret)
        assert {secret.word for secret in world.secrets} == {
            each["id"] for each in assert_good(admin.get("/v1/agents"))["agents"]
        }
    finally:
        empty(admin, world)


def assert_same_as_nobody(client: httpx2.Client, word: str) -> None:
    """The answers differ in the name that was asked for and in nothing else; nor do they differ in status."""
    nobody = "".join(reversed(word)) + "y"
    for named in zip(approvable(word), approvable(nobody), strict=True):
        first, second = (
            _bare(client.post("/v1/approvals", json={"names": [name]}), whose)
            for name, whose in zip(named, (word, nobody), strict=True)
        )
        assert first == second, named
    for method, path in [
        *(("GET", path) for path in names("{}")),
        ("PATCH", "/v1/agents/{}"),
        ("DELETE", "/v1/agents/{}"),
        ("DELETE", "/v1/sources/{}"),
    ]:
        pair = [
            client.request(method, path.format(name, name), json={"pinned": True} if method == "PATCH" else None)
            for name in (word, nobody)
        ]
        first, second = (_bare(response, name) for response, name in zip(pair, (word, nobody), strict=True))
        assert first == second, (method, path)


def _bare(response: httpx2.Response, name: str) -> Mapping[str, Any]:
    problem = assert_problem(response, 404, UnknownName)
    text = json.dumps({key: value for key, value in problem.items() if key != "instance"}).replace(name, "?")
    bare: Mapping[str, Any] = json.loads(text.replace(f" {HINT}", ""))
    # What is near to a name depends on its letters: that nothing invisible is near is another test's affair.
    return {**bare, "detail": bare["detail"].partition(" Did you mean")[0], "facts": {**bare["facts"], "nearest": []}}


NEWCOMER = {"id": "newcomer", "name": "n", "description": "n", "tools": []}


def near_manifests(secret: Secret) -> list[dict[str, Any]]:
    """Manifests of another source that hold it, or an agent with its id or launch."""
    return [
        manifest("mine", secret.record()),
        manifest("mine", {**NEWCOMER, "id": secret.word}),
        manifest("mine", {**NEWCOMER, "transport": secret.url}),
        manifest("mine", NEWCOMER, {**NEWCOMER, "id": secret.word}),
    ]


def assert_apart(writer: httpx2.Client, admin: httpx2.Client, secret: Secret) -> None:
    """What a writer who does not see it says comes beside it, whatever ids are taken."""
    for body in near_manifests(secret):
        assert_good(writer.post("/v1/manifests", json={**body, "dry_run": True}))
        [report] = assert_good(writer.post("/v1/manifests", json=body))["reports"]
        assert all(each.startswith("mine.") for each in report["agents"]["created"])
        assert_good(admin.delete("/v1/sources/mine"))


def assert_refused(client: httpx2.Client, world: World, secret: Secret) -> None:
    """An operator's manifest that claims it, has its id, its launch or its key: refused alike, and it tells no name. A
    rehearsal is as if it never was.
    """
    tries = [
        *near_manifests(secret),
        manifest(secret.source, secret.record(), partial=True),
        manifest(secret.source, {**secret.record(), "description": "changed"}, partial=True),
        manifest(secret.source, NEWCOMER, allow_mass_removal=True),
    ]
    for body in tries:
        detail = assert_problem(client.post("/v1/manifests", json=body), 403, NotAllowed)["detail"]
        assert secret.word not in detail
        assert_good(client.post("/v1/manifests", json={**body, "dry_run": True}))
