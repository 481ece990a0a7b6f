"""The same twenty questions of every view: each draws the same notices of an answer."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

import anyio
import pytest

from tests.fake_openai import fake_openai
from tests.gateway.hosts import over_http, told
from tests.service import Served, served
from waygraph.api.cli.app import main
from waygraph.api.mcp import Surface
from waygraph.registry.model.nouns import Notice, NoticeCode, Query, Turn
from waygraph.registry.model.settings import load_settings
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import recipe_named

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
STRANGE = " ".join(f"zzqx{number}" for number in range(250))
"""Words that nothing holds: beside them one that something holds says little."""
QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "convert 40 dollars to euros": {},
    "convert 40 dollars to euros, not with Bureau FX": {},
    "convert 40 dollars to euros, exclude Bureau FX": {},
    "search for shoes without Lodestar or Pigeon Mail": {},
    "search for shoes and avoid the Lodestar server": {},
    "post a message in the team chat": {},
    "entropy of quantum hamsters": {},
    "zzqx vrrt": {},
    "what will the weather be in Oslo": {},
    "make it cosy in the living room": {},
    "translate a contract into Klingon by hand": {},
    "an invoice, but not using OpenAPI services": {},
    "coach my speech delivery": {},
    "advise me how to hold a good speech": {},
    " ".join(f"word{number}" for number in range(400)): {},
    f"weather {STRANGE}": {},
    f"the weather {STRANGE}": {"strict": True},
    "a table for two tonight": {"strict": True},
    "plan a dinner and pay for it": {"by_steps": True},
    "send the minutes to the team": {"rerank": True},
    "track a parcel to Bergen": {"recipe": "taxonomy"},
    "the same for Bergen": {"history": [{"role": "call", "tool": "nobody__nothing"}]},
}
"""Each question, and how it is asked: fields of a body over REST. The operator's models answer nothing."""
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "strict": ("--strict",),
    "by_steps": ("--by-steps", "default"),
    "rerank": ("--rerank", "default"),
    "recipe": ("--recipe", "taxonomy"),
    "history": ("--used", "nobody__nothing"),
}
OF_SESSIONS = {"failed", "sent_before", "skill", "together"}
"""What only a session of a gateway can know, or counts of calls (tests/contract/test_transitions.py), or what skills
teach (tests/contract/test_skill_links.py)."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("notices") / "r.grafeo"
    assert main(["--registry", str(found), "--embedder", "none", "ingest", str(CATALOG)]) == 0
    return found


@pytest.fixture(scope="module", autouse=True)
def environ() -> Iterator[Mapping[str, str]]:
    """Of an operator whose language model is overloaded."""
    with fake_openai() as fake, pytest.MonkeyPatch.context() as patch:
        fake.overloads = 1_000
        names = {"WAYGRAPH_STEPS": "openai:m", "WAYGRAPH_RERANK": "openai:m", "WAYGRAPH_OPENAI_RETRIES": "0"}
        values = {**fake.environ, **names}
        for name, value in values.items():
            patch.setenv(name, value)
        yield values


def ask(registry: Registry, text: str) -> list[tuple[str, str]]:
    how = QUESTIONS[text]
    stages = {"rerank": "default" * how.get("rerank", False), "steps_by": "default" * how.get("by_steps", False)}
    recipe = recipe_named(how.get("recipe", "hybrid"), **stages)
    history = tuple(Turn(**turn) for turn in how.get("history", ()))
    query = Query(text=text, strict=how.get("strict", False), history=history)
    return pairs(registry.find_tools(query, recipe=recipe).notices)


@pytest.fixture(scope="module")
def expected(path: Path, environ: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """By question: the codes and texts of its notices, as the library has them."""
    with Registry.open(path, settings=load_settings(environ), environ=environ) as registry:
        return {text: ask(registry, text) for text in QUESTIONS}


def pairs(notices: Any) -> list[tuple[str, str]]:
    """Of notices, or of their shapes."""
    return [(each.code, each.text) if isinstance(each, Notice) else (each["code"], each["text"]) for each in notices]


def test_each_code_of_an_answer_is_met_by_a_question(expected: dict[str, list[tuple[str, str]]]) -> None:
    codes = {code for notices in expected.values() for code, _ in notices}
    assert codes == set(get_args(NoticeCode)) - OF_SESSIONS
    assert all(len(dict(notices)) == len(notices) for notices in expected.values())


def test_the_command_draws_them_as_text_and_as_json(
    path: Path, expected: dict[str, list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    for text, notices in expected.items():
        asked = ["--registry", str(path), "find", text, *(word for each in QUESTIONS[text] for word in OPTIONS[each])]
        assert main(asked) == 0
        drawn = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
        assert [line for line in drawn if line.startswith("note:")] == [
            f"note: {' '.join(each.split())}" for _, each in notices
        ]
        assert main([*asked, "--json"]) == 0
        assert pairs(json.loads(capsys.readouterr().out)["notices"]) == notices


def test_a_service_and_its_client_have_them(
    path: Path, expected: dict[str, list[tuple[str, str]]], environ: Mapping[str, str]
) -> None:
    with (
        served(path, settings=load_settings(environ), environ=environ) as service,
        Registry.open(service.url) as remote,
    ):
        for text, notices in expected.items():
            shape = service.client().post("/v1/tools/search", json={"text": text, **QUESTIONS[text]}).json()
            assert pairs(shape["notices"]) == notices
            assert ask(remote, text) == notices
            assert pairs(remote.route(text).notices) == pairs(service.registry.route(text).notices)


def doors(path: Path) -> Iterator[tuple[Served, str]]:
    for surface, tool in (("default", "find_tools"), ("rfc", "find_tools"), ("router", "route")):
        with served(path, surface=cast("Surface", surface)) as service:
            yield service, tool


def test_each_surface_of_the_gateway_has_them(path: Path, expected: dict[str, list[tuple[str, str]]]) -> None:
    """As notices, or as the facts of the same meaning; but for what only an operator can change. A router returns the
    better agent itself.
    """

    async def ask(url: str, tool: str) -> dict[str, dict[str, Any]]:
        async with over_http(url) as host:
            texts = [text for text in expected if not QUESTIONS[text]]
            return {text: told(await host.call_tool(tool, {"query": text})) for text in texts}

    for service, tool in doors(path):
        better = "agent" if tool == "route" else "better_agents"
        facts = {"nothing": "reason", "withheld": "reason", "better_agents": better}
        for text, answer in anyio.run(ask, f"{service.url}/mcp", tool).items():
            notices = [each for each in expected[text] if each[0] not in {*facts, "words_only"}]
            assert pairs(answer.get("notices", ())) == notices
            wanted = {facts[code] for code, _ in expected[text] if code in facts}
            assert {name for name in facts.values() if name in answer} == wanted
