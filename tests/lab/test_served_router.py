"""A router is asked as it was trained: samples of `generate router-data`, and an endpoint that answers as they say."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.docs.pages import DOCS
from tests.fake_openai import KEY, FakeOpenAI, fake_openai, in_order
from tests.gateway.hosts import Place, ingest, on_stdio, told, toolbox_place
from tests.service import assert_good, notice_of, served
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import Rerank
from waygraph.registry.storage.local_registry import LocalRegistry

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
AGENTS = ("bureau-fx", "trencher-tables", "parley-chat")
"""Of so few tools that each candidate of a search is one of the training."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A chat sample as its parts."""

    system: str
    history: Sequence[Mapping[str, str]]
    request: str
    candidates: Mapping[str, str]
    label: str

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Sample":
        system, user, answer = (message["content"] for message in record["messages"])
        prompt = json.loads(user)
        (label,) = json.loads(answer)
        return cls(
            system=system,
            history=prompt.get("history", []),
            request=prompt["request"],
            candidates={each["id"]: each["text"] for each in prompt["candidates"]},
            label=label,
        )

    @property
    def key(self) -> str:
        return _key(self.request, self.history)

    @property
    def turns(self) -> list[dict[str, str]]:
        """The history as doors take it."""
        return [_turn(row) for row in self.history]

    @property
    def is_clear(self) -> bool:
        """Whether what is to be called has not failed before: what has is put behind the others."""
        return not any(row.get("call") == self.label and row["outcome"] == "failed" for row in self.history)


def _turn(row: Mapping[str, str]) -> dict[str, str]:
    if "call" in row:
        return {
            "role": "call",
            "tool": row["call"],
            **{name: row[name] for name in ("outcome", "result") if name in row},
        }
    [(role, text)] = row.items()
    return {"role": role, "text": text}


def _key(request: str, history: Sequence[Mapping[str, str]]) -> str:
    """Of what every door tells: a gateway knows no results, and nothing of what the assistant said."""
    rows = [{name: row[name] for name in ("user", "call", "outcome") if name in row} for row in history]
    return json.dumps([request, [row for row in rows if row]])


@dataclass
class TrainedRouter:
    """Answers as the labels say, and to what it never learned that it does not know."""

    samples: Sequence[Sample]
    asked: list[Sample] = field(default_factory=list)
    names: Mapping[str, str] = field(default_factory=dict)
    """Call names by ids: what it answers in place of ids."""

    def __call__(self, request: Mapping[str, Any]) -> str:
        prompt = Sample.of({"messages": [*request["messages"], {"content": '["?"]'}]})
        self.asked.append(prompt)
        labels = [sample.label for sample in self.samples if (sample.system, sample.key) == (prompt.system, prompt.key)]
        label = next((label for label in labels if label in prompt.candidates), "I was not trained for that.")
        return json.dumps([self.names.get(label, label)])


def run(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    status = main(["--embedder", "none", *map(str, words)])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out) if "--json" in words else said.out


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    (tmp_path / "catalog").mkdir()
    for name in AGENTS:
        shutil.copy(CATALOG / f"{name}.yaml", tmp_path / "catalog")
    return tmp_path / "catalog"


@pytest.fixture
def samples(catalog: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, list[Sample]]:
    """By level, of conversations that were made by rules."""
    run(capsys, "generate", "trajectories", catalog, tmp_path / "played", "-n", 40)
    by_level = {}
    for level in ("tools", "agents"):
        file = tmp_path / f"{level}.jsonl"
        run(capsys, "generate", "router-data", tmp_path / "played", file, "--level", level)
        by_level[level] = [Sample.of(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    return by_level


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    with fake_openai() as fake:
        for name, value in {**fake.environ, "WAYGRAPH_RERANK": "openai:r"}.items():
            monkeypatch.setenv(name, value)
        yield fake


LEVELS = {"tools": ("find", "tool"), "agents": ("route", "agent")}


@pytest.mark.parametrize(("level", "command", "noun"), [(level, *words) for level, words in LEVELS.items()])
def test_a_search_asks_as_was_trained(  # noqa: PLR0917
    level: str,
    command: str,
    noun: str,
    samples: dict[str, list[Sample]],
    catalog: Path,
    endpoint: FakeOpenAI,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """System text, request and history are those of the sample, and so is each tool that it is shown: what was called
    comes first. A host may keep the request among the turns, and name calls by call names.
    """
    endpoint.answer = router = TrainedRouter(samples[level])
    base = ("--registry", tmp_path / "r.grafeo")
    run(capsys, *base, "ingest", catalog)
    served = [sample for sample in samples[level] if sample.is_clear][:12]
    assert len({sample.label for sample in served}) > 1
    assert any(sample.history for sample in served)
    for number, sample in enumerate(served):
        turns = sample.turns
        if number % 2:
            calls = [turn | {"tool": turn["tool"].replace("/", "__")} if "tool" in turn else turn for turn in turns]
            turns = [*calls, {"role": "user", "text": sample.request}]
        (tmp_path / "turns.json").write_text(json.dumps(turns), encoding="utf-8")
        words = (command, sample.request, "--history", tmp_path / "turns.json", "--rerank", "default", "--json")
        answer = run(capsys, *base, *words)
        if len(answer["matches"]) == 1:
            continue  # nobody asks for an order of one
        assert notice_of(answer, "not_reranked") == ""
        assert answer["matches"][0][noun]["id"] == sample.label
        prompt = router.asked[-1]
        assert (prompt.system, prompt.request, prompt.history) == (sample.system, sample.request, sample.history)
        if level == "tools":
            assert prompt.candidates.items() <= sample.candidates.items()
        else:
            assert prompt.candidates.keys() <= sample.candidates.keys()
    assert len(router.asked) > 4


def test_a_service_and_a_gateway_ask_as_was_trained(
    samples: dict[str, list[Sample]], catalog: Path, endpoint: FakeOpenAI, tmp_path: Path
) -> None:
    """REST with history; an MCP host by both surfaces, also where call names are answered."""
    served_samples = [sample for sample in samples["tools"] if sample.is_clear and sample.history][:6]
    endpoint.answer = router = TrainedRouter(samples["tools"])
    environ = {"OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": KEY}
    with served(settings=Settings(embedder="none", rerank="openai:r"), environ=environ) as service:
        for manifest in read_path(str(catalog), Settings()):
            sync(service.registry, manifest)
        for sample in served_samples:
            asked = {"text": sample.request, "history": sample.turns, "rerank": True}
            answer = assert_good(service.client().post("/v1/tools/search", json=asked))
            assert (notice_of(answer, "not_reranked"), answer["matches"][0]["tool"]["id"]) == ("", sample.label)
            assert router.asked[-1].history == sample.history
        router.names = {tool.id: tool.call_name for tool in service.registry.tools()}
    place = Place(tmp_path)
    assert ingest(place, str(catalog)) == 0

    async def ask(surface: str, tool: str) -> None:
        launch = on_stdio(place, "--surface", surface, WAYGRAPH_RERANK="openai:r", **environ)
        async with Client(launch) as host:
            for sample in served_samples:
                history = [
                    {"said": row["user"]} if "user" in row else {"tool": row["call"], "outcome": row["outcome"]}
                    for row in sample.history
                    if "assistant" not in row
                ]
                answer = told(await host.call_tool(tool, {"query": sample.request, "history": history}))
                best = answer["tool"] if surface == "router" else answer["tools"][0]
                codes = [each["code"] for each in answer.get("notices", ())]
                assert (best["name"], "not_reranked" in codes) == (router.names[sample.label], False)

    anyio.run(ask, "router", "route")
    anyio.run(ask, "default", "find_tools")


TALK: list[dict[str, Any]] = [
    {"role": "user", "text": "Add 1 and 2, and then open the door or ask a person"},
    {"role": "call", "agent": "box", "tool": "add", "arguments": {"a": 1, "b": 2}, "result": "3"},
    {"role": "assistant", "text": "That is 3. Now the door."},
    {"role": "call", "agent": "box", "tool": "fail", "arguments": {}, "result": "no door", "outcome": "failed"},
    {"role": "call", "agent": "box", "tool": "ask", "arguments": {}, "result": "blue"},
]


def test_a_gateway_serves_the_prompt_of_a_sample(
    endpoint: FakeOpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Made by `--as gateway`: the same fields in the same form, of the calls that a session has really made, and of the
    turns that a host tells by itself. Nothing of a result is sent.
    """
    place, folder, file = toolbox_place(tmp_path), tmp_path / "talks", tmp_path / "samples.jsonl"
    with LocalRegistry.open(place.registry) as registry:
        [box], tools = registry.agents(), registry.tools()
    shown = [
        {"name": each.name, "description": each.description, "inputSchema": json.loads(each.input_schema)}
        for each in tools
    ]
    folder.mkdir()
    (folder / "agents.jsonl").write_text(json.dumps({"id": "box", "description": box.description, "tools": shown}))
    (folder / "trajectories.jsonl").write_text(json.dumps({"id": "one", "turns": TALK}))

    def generate(*options: str) -> list[list[dict[str, str]]]:
        run(capsys, "generate", "router-data", folder, file, *options)
        return [json.loads(line)["messages"] for line in file.read_text(encoding="utf-8").splitlines()]

    samples = generate("--as", "gateway")
    endpoint.answers = ["[]"]
    calls = [("box__add", {"a": 1, "b": 2}), ("box__fail", {}), ("box__ask", {})]
    told_turns = [{"said": TALK[0]["text"]}, *({"tool": f"box/{name}", "outcome": "ok"} for name in ("add", "tell"))]

    async def serve() -> None:
        launch = on_stdio(place, "--surface", "router", WAYGRAPH_RERANK="openai:r", **endpoint.environ)
        async with Client(launch, mode="legacy") as host:
            for name, params in calls:
                await host.call_tool("route", {"query": TALK[0]["text"]})
                await host.call_tool("execute", {"name": name, "params": params})
            await host.call_tool("route", {"query": "ask a person, or fail", "history": told_turns})

    anyio.run(serve)
    *served, by_host = [request["messages"] for request in endpoint.requests]
    assert len(served) == len(samples) == len(calls)
    for prompt, sample in zip(served, samples, strict=True):
        assert prompt[0] == sample[0]
        fields, trained = json.loads(prompt[1]["content"]), json.loads(sample[1]["content"])
        assert list(fields) == list(trained)
        known = {each["id"]: each for each in trained.pop("candidates")}
        assert all(each == known[each["id"]] for each in fields.pop("candidates"))
        assert fields == trained
    assert json.loads(samples[2][1]["content"])["history"] == [
        {"call": "box/add", "outcome": "ok"},
        {"call": "box/fail", "outcome": "failed"},
    ]
    assert json.loads(by_host[1]["content"])["history"] == [
        {"user": TALK[0]["text"]},
        {"call": "box/add", "outcome": "ok"},
        {"call": "box/tell", "outcome": "ok"},
    ]
    whole, bare = (json.loads(generate(*options)[2][1]["content"]) for options in ([], ["--no-history"]))
    assert [row.get("result") for row in whole["history"]] == ["3", None, "no door"]
    assert list(bare) == ["request", "candidates"]
    ranking = generate_ranking(folder, file, capsys, "--as", "gateway")
    assert (ranking["query"], [turn["role"] for turn in ranking["history"]]) == (
        {"role": "call", "agent": "box", "tool": "fail", "outcome": "failed"},
        ["user", "call"],
    )
    assert generate_ranking(folder, file, capsys, "--no-history")["history"] == []


def generate_ranking(folder: Path, file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The last sample."""
    run(capsys, "generate", "router-data", folder, file, "--form", "ranking", *options)
    sample: dict[str, Any] = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
    return sample


def test_the_ablation_asks_each_router_as_it_was_trained(
    samples: dict[str, list[Sample]], endpoint: FakeOpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`eval history`: a router knows each call by all turns, and by those of a gateway; one without history only those
    calls that their request alone tells.
    """
    played, file = tmp_path / "played", tmp_path / "bare.jsonl"
    run(capsys, "generate", "router-data", played, file, "--no-history")
    bare = [Sample.of(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    routers = {"r": TrainedRouter(samples["tools"]), "bare": TrainedRouter(bare)}

    def answer(request: dict[str, Any]) -> str:
        """To what it was not trained for, agents too, the first candidate."""
        label = routers[request["model"]](request)
        return in_order(1)(request) if "not trained" in label else label

    endpoint.answer = answer
    command = ["eval", "history", played, "--recipe", "lexical", "--rerank", "openai:r", "--without", "openai:bare"]
    tables = {table["level"]: table for table in run(capsys, *command, "--json")["tables"]}
    rows = {row["method"]: row["estimates"]["Recall@1"] for row in tables["tools"]["rows"]}
    whole, gateway, none = rows
    assert [name.rpartition(", ")[2] for name in rows] == ["all turns", "as a gateway", "no history"]
    assert [name.partition(",")[0].partition("openai:")[2] for name in rows] == ["r", "r", "bare"]
    assert rows[whole]["value"] == rows[gateway]["value"] > rows[none]["value"] > 0
    assert tables["agents"]["against"] == whole
    histories = [prompt.history for prompt in routers["r"].asked]
    assert any("result" in row for history in histories for row in history)
    assert any(history and not any({"result", "assistant"} & row.keys() for row in history) for history in histories)
    assert routers["bare"].asked
    assert not any(prompt.history for prompt in routers["bare"].asked)


def test_as_many_candidates_are_trained_as_are_asked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "generate", "trajectories", CATALOG, tmp_path / "played", "-n", 3)
    run(capsys, "generate", "router-data", tmp_path / "played", tmp_path / "train.jsonl")
    lines = (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()
    assert {len(Sample.of(json.loads(line)).candidates) for line in lines} == {Rerank(spec="openai:r").depth}


@pytest.mark.full
def test_the_page_leads_from_a_catalogue_to_a_router(endpoint: FakeOpenAI, tmp_path: Path, root: Path) -> None:
    """Its commands run as they stand, in order; what they write is what the endpoint at the page's address learned."""
    (tmp_path / "examples").symlink_to(root / "examples")
    [page] = re.findall(
        r"^## A router of your own\n(.*?)^## ", (DOCS / "evaluation.md").read_text("utf-8"), re.M | re.S
    )
    make, ask = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)

    def run_lines(lines: str) -> str:
        program = Path(sys.executable).parent
        environ = os.environ | {
            "PATH": f"{program}:{os.environ['PATH']}",
            "WAYGRAPH_REGISTRY": str(tmp_path / "r.grafeo"),
        }
        words = ["/bin/sh", "-ec", lines.replace("http://localhost:8000/v1", endpoint.url)]
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run_lines(make)
    lines = (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()
    systems = {Sample.of(json.loads(line)).system for line in lines}
    endpoint.answer = in_order(5)
    out = run_lines(ask)
    [request] = endpoint.requests
    prompt = Sample.of({"messages": [*request["messages"], {"content": '["?"]'}]})
    assert ({prompt.system}, request["model"]) == (systems, "router")
    assert request["chat_template_kwargs"] == {"enable_thinking": False}
    found = [line for line in out.splitlines() if any(each in line for each in prompt.candidates)]
    assert list(prompt.candidates)[4] in found[0]
