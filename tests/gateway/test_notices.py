"""The same twenty questions of every view: each draws the same notices of an answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from tests.gateway.hosts import over_http, told
from tests.service import Served, served
from waygraph.api.cli.app import main
from waygraph.api.mcp import Surface
from waygraph.registry.model.nouns import Notice
from waygraph.registry.registry import Registry

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
QUESTIONS = (
    "convert 40 dollars to euros",
    "convert 40 dollars to euros, not with Bureau FX",
    "convert 40 dollars to euros, exclude Bureau FX",
    "search for shoes without Lodestar or Pigeon Mail",
    "search for shoes and avoid the Lodestar server",
    "post a message in the team chat",
    "book a table for four on Friday",
    "entropy of quantum hamsters",
    "zzqx vrrt",
    "draw a bar chart",
    "send an e-mail",
    "who is on call",
    "what will the weather be in Oslo",
    "make it cosy in the living room",
    "translate a contract into Klingon by hand",
    "an invoice, but not using OpenAPI services",
    "advise me how to hold a good speech",
    "plant advice",
    "coach my speech delivery",
    " ".join(f"word{number}" for number in range(400)),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("notices") / "r.grafeo"
    assert main(["--registry", str(found), "--embedder", "none", "ingest", str(CATALOG)]) == 0
    return found


@pytest.fixture(scope="module")
def expected(path: Path) -> dict[str, list[tuple[str, str]]]:
    """By question: the codes and texts of its notices, as the library has them."""
    with Registry.open(path) as registry:
        return {text: pairs(registry.find_tools(text).notices) for text in QUESTIONS}


def pairs(notices: Any) -> list[tuple[str, str]]:
    """Of notices, or of their shapes."""
    return [(each.code, each.text) if isinstance(each, Notice) else (each["code"], each["text"]) for each in notices]


def test_the_questions_meet_notices_of_many_kinds(expected: dict[str, list[tuple[str, str]]]) -> None:
    codes = {code for notices in expected.values() for code, _ in notices}
    assert codes >= {"excluded", "unsure", "nothing", "better_agents", "cut", "words_only"}
    assert all(len(dict(notices)) == len(notices) for notices in expected.values())


def test_the_command_draws_them_as_text_and_as_json(
    path: Path, expected: dict[str, list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    for text, notices in expected.items():
        assert main(["--registry", str(path), "find", text]) == 0
        drawn = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
        assert drawn == [f"note: {' '.join(each.split())}" for _, each in notices]
        assert main(["--registry", str(path), "find", text, "--json"]) == 0
        assert pairs(json.loads(capsys.readouterr().out)["notices"]) == notices


def test_a_service_and_its_client_have_them(path: Path, expected: dict[str, list[tuple[str, str]]]) -> None:
    with served(path) as service, Registry.open(service.url) as remote:
        for text, notices in expected.items():
            shape = service.client().post("/v1/tools/search", json={"text": text}).json()
            assert pairs(shape["notices"]) == notices
            assert pairs(remote.find_tools(text).notices) == notices
            assert pairs(remote.route(text).notices) == pairs(service.registry.route(text).notices)


def doors(path: Path) -> Iterator[tuple[Served, str]]:
    for surface, tool in (("default", "find_tools"), ("rfc", "find_tools"), ("router", "route")):
        with served(path, surface=cast("Surface", surface)) as service:
            yield service, tool


def test_each_surface_of_the_gateway_has_them(path: Path, expected: dict[str, list[tuple[str, str]]]) -> None:
    """As notices, or as the facts of the same meaning; but for what only an operator can change."""

    async def ask(url: str, tool: str) -> dict[str, dict[str, Any]]:
        async with over_http(url) as host:
            return {text: told(await host.call_tool(tool, {"query": text})) for text in expected}

    facts = {"nothing": "reason", "withheld": "reason", "better_agents": "better_agents"}
    for service, tool in doors(path):
        for text, answer in anyio.run(ask, f"{service.url}/mcp", tool).items():
            notices = [each for each in expected[text] if each[0] not in {*facts, "words_only"}]
            assert pairs(answer.get("notices", ())) == notices
            wanted = {facts[code] for code, _ in expected[text] if code in facts}
            assert {name for name in facts.values() if name in answer} == wanted
