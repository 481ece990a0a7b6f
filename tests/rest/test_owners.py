"""Whose a source is: who changes and removes what it says, at every door. The table is in docs/security.md."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.service import Served, agent, assert_good, assert_problem, content, manifest
from waygraph import Settings
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import Document
from waygraph.registry.model.errors import NotAllowed, UnknownName
from waygraph.registry.remote.remote_registry import RemoteRegistry

Said = Mapping[str, Any]
Door = Callable[[Served, str, str, Said | None], None]
"""Sends what a source says, or None to forget it, with this key. Raises NotAllowed, UnknownName."""
WRITER = ("read", "write")


def by_rest(service: Served, key: str, source: str, said: Said | None) -> None:
    client = service.client(key)
    answer = client.post("/v1/manifests", json=said) if said else client.delete(f"/v1/sources/{source}")
    if answer.status_code != 200:
        kind = NotAllowed if answer.status_code == 403 else UnknownName
        assert_problem(answer, answer.status_code, kind)
        raise NotAllowed(answer.text) if kind is NotAllowed else UnknownName("source", source, ())


def by_client(service: Served, key: str, source: str, said: Said | None) -> None:
    with RemoteRegistry.open(service.url, settings=Settings(api_key=key), environ={}) as registry:
        if said is None:
            registry.operator.forget(source)
            return
        answer = registry.take(
            [Document(f"{source}.json", json.dumps(said["manifest"]))],
            source=source,
            namespace="",
            kind="",
            policy=None,
            texts=None,
            dry_run=False,
            allow_mass_removal=said.get("allow_mass_removal", False),
        )
        if answer.error:
            raise answer.error


def by_library(service: Served, key: str, source: str, said: Said | None) -> None:
    assert service.service.authenticator
    caller = service.service.authenticator.caller(f"Bearer {key}", None)
    if said is None:
        service.registry.operator.forget(source, principal=caller.writer)
        return
    document = Document(f"{source}.json", json.dumps(said["manifest"]))
    for each in read_documents([document], Settings(), source=source):
        allow = said.get("allow_mass_removal", False)
        sync(service.registry, each, principal=caller.writer, allow_mass_removal=allow)


DOORS: dict[str, Door] = {"REST": by_rest, "client": by_client, "library": by_library}
SITUATIONS: dict[str, tuple[str, Said | None]] = {
    "another text and other tools": ("cfg", manifest("cfg", agent("one", "steal"), agent("two", "look"))),
    "no agents": ("cfg", manifest("cfg", allow_mass_removal=True)),
    "one agent in a small source": ("cfg", manifest("cfg", agent("one", "look"))),
    "an agent more": ("cfg", manifest("cfg", agent("one", "look"), agent("two", "look"), agent("three"))),
    "no agents in a source without agents": ("empty", manifest("empty")),
    "forget": ("cfg", None),
    "another writer's": ("theirs", manifest("theirs", agent("theirs", "steal"))),
    "forget another writer's": ("theirs", None),
    "a hidden source": ("dark", manifest("dark", agent("night", "steal"), allow_mass_removal=True)),
    "a source that others see too": ("shared", manifest("shared", agent("both", "steal"))),
}


@pytest.fixture
def filled(guarded: Served) -> Served:
    admin, deck = guarded.admin(), {"visible_to": ["deck"]}
    for source, agents in {
        "cfg": [agent("one", "look"), agent("two", "look")],
        "empty": [],
        "dark": [agent("night", "look", transport={"type": "http", "url": "https://night.example/mcp"}, **deck)],
        "shared": [agent("both", "look", visible_to=["crew", "deck"])],
        "crew": [agent("ours", "look", visible_to=["crew"])],
    }.items():
        assert_good(admin.post("/v1/manifests", json=manifest(source, *agents)))
    assert_good(guarded.caller(*WRITER).post("/v1/manifests", json=manifest("theirs", agent("theirs", "look"))))
    return guarded


@pytest.mark.parametrize("door", DOORS)
def test_what_others_see_is_its_owners_and_operators(filled: Served, door: str) -> None:
    """A stranger changes nothing by any door; the writer who made a source, and its group, may."""
    call, before = DOORS[door], content(filled)
    writer = filled.key(*WRITER, groups=("crew",))
    for name, (source, said) in SITUATIONS.items():
        with pytest.raises((NotAllowed, UnknownName) if said is None else NotAllowed):
            call(filled, writer, source, said)
        assert content(filled) == before, name
    call(filled, writer, "own", manifest("own", agent("one", "look"), agent("mine", "look")))
    call(filled, writer, "own", manifest("own", agent("one", "peek"), agent("mine", "look")))
    call(filled, writer, "crew", manifest("crew", agent("ours", "peek", visible_to=["crew"])))
    assert [tool.id for tool in filled.registry.tools("one")] == ["one/look"]
    call(filled, writer, "own", manifest("own", allow_mass_removal=True))
    call(filled, writer, "own", manifest("own", agent("mine", "look")))
    call(filled, writer, "own", None)
    assert [each["name"] for each in content(filled)["sources"] if "owner" in each] == ["theirs"]  # type: ignore[index]


@pytest.mark.parametrize("operator", ["everything", "admin"])
def test_operators_change_what_anybody_made_and_it_is_theirs_then(filled: Served, operator: str) -> None:
    owner = filled.key(*WRITER)
    by_rest(filled, owner, "made", manifest("made", agent("made", "look")))
    scopes = WRITER if operator == "everything" else (*WRITER, "admin")
    key = filled.key(*scopes, everything=operator == "everything", groups=() if operator == "everything" else ("crew",))
    for source, said in (*SITUATIONS.values(), ("made", manifest("made", agent("made", "peek")))):
        if source != "dark" or operator == "everything":
            with_source = filled.admin().get("/v1/export").json()["sources"]
            if any(each["name"] == source for each in with_source):
                by_rest(filled, key, source, said)
    with pytest.raises(NotAllowed):
        by_rest(filled, owner, "made", manifest("made", agent("made", "steal")))


def test_an_export_keeps_whose_a_source_is(filled: Served) -> None:
    told = filled.admin().get("/v1/export").json()
    assert_good(filled.admin().post("/v1/manifests", json={"source": "x", "kind": "export", "manifest": told}))
    assert content(filled) == {name: part for name, part in told.items() if name != "revision"}


PROBES: dict[str, Callable[[str], Said]] = {
    "id": lambda word: manifest("mine", agent(word, "look")),
    "launch": lambda word: manifest(
        "mine", agent("mine", "look", transport={"type": "http", "url": f"https://{word}.example/mcp"})
    ),
    "id beside others": lambda word: manifest("mine", agent("mine"), agent(word, "look")),
}


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("taken", ["night", "one"])
def test_a_writer_learns_of_no_id_and_no_launch(filled: Served, name: str, taken: str) -> None:
    """The answer, and what is there afterwards, is the same for an id that is taken and for one that is free."""
    answers = []
    for word in (taken, "x" * len(taken)):
        client = filled.caller(*WRITER, groups=("crew",))
        answer = client.post("/v1/manifests", json=PROBES[name](word)).json()
        seen = [answer, client.get("/v1/agents").json()["agents"], client.delete("/v1/sources/mine").json()]
        text = re.sub(r'"(seconds|revision)": [0-9.e-]+', "", json.dumps(seen[::2]))
        answers.append((text.replace(word, "?"), len(seen[1])))
    assert answers[0] == answers[1]
    assert "mine." in answers[0][0]


def test_a_source_of_another_is_refused_in_the_same_words(filled: Served) -> None:
    """Whether the caller sees it, or it is hidden, or holds nothing."""
    client = filled.caller(*WRITER, groups=("crew",))
    details = {
        assert_problem(client.post("/v1/manifests", json=manifest(name, agent("a"))), 403, NotAllowed)["detail"]
        for name in ("cfg", "dark", "empty", "theirs")
    }
    assert len(details) == 1
