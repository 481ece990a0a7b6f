"""The pages of the gateway hold answers that are given, and a policy that is taken."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, block, blocks
from waygraph.api.cli.app import main
from waygraph.ingest.execution.services import load_services
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.policy import CallPolicy, Rule, parse_policy
from waygraph.registry.catalog.find import FindAsked, find
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

PAGE, POLICY_PAGE, LOGINS_PAGE = DOCS / "gateway.md", DOCS / "calling.md", DOCS / "logins.md"
DENIED = CallPolicy(rules=(Rule(match="kindred-hr", verdict="deny", reason="leave is asked for at the desk"),))
SHOWN: tuple[tuple[FindAsked, CallPolicy], ...] = (
    (FindAsked(query="merge_pull_request", limit=1), CallPolicy()),
    (FindAsked(query="kindred-hr__approve_request", limit=1, agent_ids=frozenset({"kindred-hr"})), DENIED),
    (FindAsked(query="entropy of quantum hamsters"), CallPolicy(strict=True)),
    (FindAsked(), CallPolicy()),
)


@pytest.fixture(scope="module")
def examples(catalog: Path) -> Iterator[Registry]:
    with Registry.open(":memory:") as registry:
        for manifest in read_path(str(catalog), Settings(), source="catalog"):
            sync(registry, manifest)
        yield registry


def shown_part(answer: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """Of the tags and of the tools that are named, as many as the page shows."""
    if "overview" in answer:
        tags = dict(list(answer["overview"]["tags"].items())[: len(told["overview"]["tags"])])
        answer["overview"]["tags"] = tags
    if "not_callable" in answer:
        answer["not_callable"] = answer["not_callable"][: len(told["not_callable"])]
        answer.pop("not_callable_more", None)
    return answer


@pytest.mark.parametrize("number", range(len(SHOWN)))
def test_the_answers_of_the_page_are_given(examples: Registry, number: int) -> None:
    asked, policy = SHOWN[number]
    told = json.loads(blocks(PAGE, "json")[number])
    assert shown_part(find(examples, asked, policy=policy), told) == told


def test_every_answer_of_the_page_is_tried() -> None:
    assert len(blocks(PAGE, "json")) == len(SHOWN)


def test_the_policy_of_the_page_is_taken() -> None:
    text = block(POLICY_PAGE, "toml", "[[rules]]")
    policy = parse_policy(text)
    assert len(policy.rules) == text.count("[[rules]]")
    assert (policy.default, policy.destructive, policy.unannotated) == ("allow", "ask", "by_name")


def test_the_logins_of_the_page_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "services.toml"
    file.write_text(block(LOGINS_PAGE, "toml", "[[login]]"), encoding="utf-8")
    rules = load_services(str(file)).logins
    assert [(rule.agent, rule.by, rule.takes_login) for rule in rules] == [
        ("github", "oauth", True),
        ("wiki", "header", True),
        ("orders", "exchange", False),
    ]


def test_toolsets_are_made_as_the_page_says(catalog: Path, tmp_path: Path) -> None:
    """By its commands, then by its file."""
    path, file = tmp_path / "r.grafeo", tmp_path / "toolsets.toml"
    assert main(["--registry", str(path), "ingest", str(catalog)]) == 0
    commands = block(PAGE, "sh", "toolset create").splitlines()
    assert [main(["--registry", str(path), *shlex.split(line)[1:]]) for line in commands] == [0] * len(commands)
    file.write_text(block(PAGE, "toml", "[toolsets.money]"), encoding="utf-8")
    assert main(["--registry", str(path), "toolset", "apply", str(file)]) == 0
    with Registry.open(path) as registry:
        assert registry.toolset("money").callers == ("accounts",)
        assert "bureau-fx/convert" in registry.toolset("money").includes
