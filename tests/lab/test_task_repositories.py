"""`generate tasks`: what a checkout of MCP-Universe or MCPMark becomes, and that `eval` reads it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli_answers import run_program

AGENTS = {
    "GitHub MCP Server": "Issues and pull requests of code repositories.",
    "pg": "Tables and queries of PostgreSQL databases.",
    "notes": "Pages and notes of a team.",
}


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    folder = tmp_path / "catalogue"
    folder.mkdir()
    agents = [{"id": name, "name": name, "description": text} for name, text in AGENTS.items()]
    (folder / "agents.jsonl").write_text("".join(json.dumps(agent) + "\n" for agent in agents))
    return folder


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.fixture
def universe(tmp_path: Path) -> Path:
    checkout = tmp_path / "universe"
    configs = checkout / "mcpuniverse" / "benchmark" / "configs" / "teams"
    tasks = {
        "both": {"question": "Note the open issues.", "mcp_servers": [{"name": "github"}, {"name": "notes"}]},
        "maps": {"question": "Find a way.", "mcp_servers": [{"name": "google-maps"}]},
        "none": {"question": "Think.", "mcp_servers": []},
        "empty": {"question": "  ", "mcp_servers": [{"name": "github"}]},
        "settings": {"no": "task"},
    }
    for name, task in tasks.items():
        write_json(configs / f"{name}.json", task)
    (configs / "linked.json").symlink_to(configs / "both.json")
    launch = {"stdio": {"command": "docker", "args": ["run", "github"]}, "env": {"TOKEN": "{{GITHUB_TOKEN}}"}}
    write_json(checkout / "mcpuniverse" / "mcp" / "configs" / "server_list.json", {"github": launch, "odd": 3})
    return checkout


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    checkout = tmp_path / "mark"
    for place, servers in (("postgres/sales/monthly", ["postgres"]), ("github/ci/labels", ["github"])):
        write_json(checkout / "tasks" / place / "meta.json", {"mcp": servers})
        (checkout / "tasks" / place / "description.md").write_text(f"Do what {place} needs.")
    write_json(checkout / "tasks" / "github" / "ci" / "bare" / "meta.json", {"mcp": ["github"]})
    return checkout


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_tasks_of_mcp_universe(
    universe: Path, catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server of the catalogue is known however it is written; the rest is told with its reason."""
    folder = tmp_path / "made"
    written = run_program(capsys, "generate", "tasks", universe, catalogue, folder, "--json").json
    assert written | {"left_out": None} == {"folder": str(folder), "tasks": 1, "servers": 2, "left_out": None}
    assert sorted(written["left_out"].values()) == [1, 1, 1]
    left_out = {Path(line["id"]).name: line["reason"] for line in lines(folder / "left-out.jsonl")}
    assert left_out.keys() == {"maps", "none", "empty"}
    assert "google-maps" in left_out["maps"]
    [query] = lines(folder / "queries.jsonl")
    assert (query["gold"], query["split"]) == ([["GitHub MCP Server"], ["notes"]], "teams")
    assert json.loads((folder / "mcp.json").read_text()) == {
        "mcpServers": {
            "GitHub MCP Server": {"command": "docker", "args": ["run", "github"], "env": {"TOKEN": "${GITHUB_TOKEN}"}}
        }
    }
    judged = run_program(capsys, "eval", folder, "--with-embedder", "none", "--json")
    assert judged.status == 0, judged.err
    assert judged.json["dataset"]["questions"] == 1


def test_tasks_of_mcpmark(mark: Path, catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another name of a server is given by `--server`; a task without its text is left out."""
    folder = tmp_path / "made"
    run = run_program(capsys, "generate", "tasks", mark, catalogue, folder, "--server", "postgres=pg", "--json")
    assert (run.json["tasks"], run.json["servers"], sum(run.json["left_out"].values())) == (2, 2, 1)
    assert {query["id"]: query["gold"] for query in lines(folder / "queries.jsonl")} == {
        "github/ci/labels": [["GitHub MCP Server"]],
        "postgres/sales/monthly": [["pg"]],
    }


@pytest.mark.parametrize(
    ("server", "checkout", "part"),
    [("postgres", "mark", "NAME=AGENT"), ("postgres=pgg", "mark", "'pg'"), ("postgres=pg", "catalogue", "MCPMark")],
)
@pytest.mark.usefixtures("mark", "catalogue")
def test_what_is_refused(
    server: str, checkout: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, made = tmp_path / checkout, tmp_path / "made"
    refused = run_program(capsys, "generate", "tasks", place, tmp_path / "catalogue", made, "--server", server)
    assert refused.status != 0
    assert part in refused.err
    assert not made.exists()
