"""An OpenAPI document in several files: what comes along, and what no reference reaches."""

import json
import os
from pathlib import Path

import pytest

from tests.openapi_documents import manifest_of

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


def write(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def service(**paths: str) -> dict[str, object]:
    """A document whose paths are references."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Jetty", "version": "1"},
        "servers": [{"url": "https://jetty.example/v1"}],
        "paths": {f"/{name}": {"$ref": reference} for name, reference in paths.items()},
        "components": {"schemas": {"Own": SCHEMA}},
    }


def operation(name: str, schema: str) -> dict[str, object]:
    content = {"application/json": {"schema": {"$ref": schema}}}
    return {"post": {"operationId": name, "summary": f"Does {name}.", "requestBody": {"content": content}}}


def tools(path: Path) -> list[str]:
    return sorted(tool.name for entry in manifest_of(path).entries for tool in entry.tools)


@pytest.mark.parametrize("root", ["openapi.json", "openapi.yaml", "swagger.json"])
def test_files_beside_a_document_are_part_of_it(root: str, tmp_path: Path) -> None:
    """From file to file, back to the document, to places within one, in a circle, and with escaped names."""
    document = write(tmp_path, root, service(one="paths/one.json", two="./paths/two_%7Bid%7D.yaml"))
    write(tmp_path, "paths/one.json", operation("one", "../schemas/all.yaml#/Boat"))
    write(tmp_path, "paths/two_{id}.yaml", operation("two", f"../{root}#/components/schemas/Own"))
    write(tmp_path, "schemas/all.yaml", {"Boat": {"type": "object", "properties": {"next": {"$ref": "#/Boat"}}}})
    manifest = manifest_of(document)
    [entry] = manifest.entries
    assert (manifest.rejected, manifest.cut) == ((), ())
    one, two = sorted(entry.tools, key=lambda tool: tool.name)
    assert '"next"' in one.input_schema
    assert '"name"' in two.input_schema


def test_the_parts_of_a_document_in_a_folder_are_no_documents(tmp_path: Path) -> None:
    write(tmp_path, "openapi.json", service(one="paths/one.json"))
    write(tmp_path, "paths/one.json", operation("one", "../a.json"))
    write(tmp_path, "a.json", SCHEMA)
    write(tmp_path, "other.json", {"no": "kind"})
    assert tools(tmp_path) == ["one"]
    [fault] = manifest_of(tmp_path).rejected
    assert fault.where.startswith(str(tmp_path / "other.json"))


@pytest.mark.parametrize(
    "reference",
    [
        *("../secret.json", "link.json", "folder/secret.json", "{outside}", "file://{outside}"),
        *("https://127.0.0.1:9/a.json", "pipe.json", "none.json", "secret.txt", "broken.json", "deep.json", "paths"),
    ],
)
def test_no_reference_leaves_the_folder(reference: str, tmp_path: Path) -> None:
    """Each is reported where it stands, and costs its path alone."""
    outside, folder = write(tmp_path, "secret.json", operation("leak", "#/x")), tmp_path / "service"
    write(folder, "good.json", operation("good", "#/post"))
    write(folder, "secret.txt", json.dumps(operation("leak", "#/x")))
    write(folder, "broken.json", "{")
    write(folder, "deep.json", "[" * 100_000)
    (folder / "link.json").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.json")
    document = service(good="good.json", bad=reference.format(outside=outside))
    path = write(folder, "openapi.json", document)
    assert tools(path) == ["good"]
    [fault] = manifest_of(path).rejected
    assert fault.where == f"{path}#/paths/~1bad"


def test_a_document_of_many_files_is_read_as_far_as_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waygraph.ingest.sources.parse.MAX_FILES", 3)
    names = [f"p{number}" for number in range(5)]
    for name in names:
        write(tmp_path, f"{name}.json", operation(name, "#/post"))
    path = write(tmp_path, "openapi.json", service(**{name: f"{name}.json" for name in names}))
    assert len(tools(path)) == 3
    assert len(manifest_of(path).rejected) == 2
