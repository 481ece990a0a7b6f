"""Docker's catalogue, A2X's service lists, JSON Lines of servers: what each form gives, what costs only itself."""

import json
from pathlib import Path

import pytest

from tests.unit.test_sources import keys, reasons
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

S = Settings()


def read(folder: Path, content: str | bytes, name: str) -> Manifest:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    [manifest] = read_path(str(path), S)
    return manifest


def test_a_bad_record_of_dockers_catalogue_costs_itself(tmp_path: Path) -> None:
    """A tool the tool, a server the server, under its key where that is told; arguments become a schema."""
    good = {"name": "good", "title": "Good", "category": "sea", "tags": ["ships"]}
    argument = {"name": "to", "type": "string", "desc": "Whereto", "optional": True}
    tools = [{"name": "a", "arguments": [5]}, 7, {"name": "b", "arguments": [argument, {"name": "on"}]}]
    servers = [{**good, "tools": tools}, 5, {**good, "name": "untagged", "tags": "sea", "tools": []}]
    manifest = read(tmp_path, json.dumps(servers), "c.json")
    [entry] = manifest.entries
    assert (entry.key, entry.agent.name, entry.agent.tags) == ("good", "Good", ("sea", "ships"))
    assert [(tool.name, json.loads(tool.input_schema)) for tool in entry.tools] == [
        (
            "b",
            {
                "type": "object",
                "properties": {"to": {"type": "string", "description": "Whereto"}, "on": {}},
                "required": ["on"],
            },
        )
    ]
    assert reasons(manifest) == {
        "/0/tools/0/arguments": "expected a list of objects with a name each",
        "/0/tools/1": "tool name: a name must be a non-empty string",
        "/1": "expected a server object, found a number",
        "/2": "tags: expected a list of non-empty strings, found a string",
    }


def test_a_service_list_is_agents_without_tools(tmp_path: Path) -> None:
    """As the evaluation reads them: a flat map of properties is no tool."""
    services = [
        {
            "id": "one",
            "type": "generic",
            "name": "银行账户",
            "description": "开户",
            "metadata": {"inputSchema": {"a": {}}},
        },
        5,
        {"id": "two", "type": "generic", "name": "Two", "description": "2", "metadata": {}},
    ]
    manifest = read(tmp_path, json.dumps(services), "service.json")
    assert [(e.key, e.agent.name, e.agent.kind, e.tools) for e in manifest.entries] == [
        ("one", "银行账户", "custom", ()),
        ("two", "Two", "custom", ()),
    ]
    assert reasons(manifest) == {"/1": "expected a service object, found a number"}
    assert manifest.partial


ONE = {"name": "One", "url": "https://code.example/a/one", "description": "The first", "category": "x"}
TWO = {"name": "Two", "url": "https://code.example/a/two/", "description": "The second", "category": ""}


def lines(*records: object) -> str:
    return "\n".join(record if isinstance(record, str) else json.dumps(record) for record in records) + "\n"


@pytest.mark.parametrize("name", ["list.jsonl", "list.ndjson", "list.JSONL", "list.txt"])
def test_a_server_a_line_is_an_agent_a_line(tmp_path: Path, name: str) -> None:
    """Known by its address; a file of another name is known by its look."""
    manifest = read(tmp_path, lines(ONE, "", TWO), name)
    assert keys(manifest) == ["code.example/a/one", "code.example/a/two"]
    first = manifest.entries[0].agent
    assert (first.id, first.name, first.tags) == ("code.example.a.one", "One", ("x",))
    assert json.loads(first.transport) == {"homepage": "https://code.example/a/one"}
    assert manifest.rejected == ()


def test_a_bad_record_costs_that_record(tmp_path: Path) -> None:
    """Each is named by its place; what is held of agents that it may have named stays."""
    text = lines(ONE, "[]", '{"name": "\\ud800"}', {"name": "x", "url": 5}, TWO, {})
    manifest = read(tmp_path, text, "list.jsonl")
    assert keys(manifest) == ["code.example/a/one", "code.example/a/two"]
    told = reasons(manifest)
    assert told["/1"] == "expected a server object, found a list"
    assert "half of a surrogate pair" in told["/2"]
    assert told["/3"] == "url: expected an address such as https://host/path, found a number"
    assert told["/5"] == "agent id: a name must be a non-empty string"
    assert len(told) == len(manifest.rejected) == 4
    assert manifest.partial


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "L2: is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ("9" * 5000, "L2: cannot be read: Exceeds the limit"),
        ("[" * 100_000, "L2: is nested too deeply"),
    ],
)
def test_a_line_that_is_no_json_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        read(tmp_path, lines(ONE, line), "list.jsonl")


@pytest.mark.parametrize("url", ["https://me:abc@code.example/p?token=abc#abc", "https://code.example/p?key=abc"])
def test_no_secret_of_an_address_becomes_a_key(tmp_path: Path, url: str) -> None:
    manifest = read(tmp_path, lines({**ONE, "url": url}), "list.jsonl")
    assert keys(manifest) == ["code.example/p"]
    assert "abc" not in repr(manifest)
