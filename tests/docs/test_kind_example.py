"""The kind of source in docs/library.md is a package that is installed, found and read."""

import json
import tomllib
from pathlib import Path

from benchmarks.contributed import install, on_path
from tests.docs.pages import DOCS, block, rows
from waygraph.ingest.sources.kinds import BUILT_IN_KINDS
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.settings import Settings

PAGE, EXTENDING = DOCS / "sources.md", DOCS / "library.md"


def test_the_kind_on_the_page_works_from_its_package(tmp_path: Path) -> None:
    """Its document is told from the content; a bad bot and a bad command cost themselves."""
    document = block(EXTENDING, "json", '"bots"')
    module, project = block(EXTENDING, "python", "BOTS = Kind("), block(EXTENDING, "toml", "waygraph.kinds")
    points = tomllib.loads(project)["project"]["entry-points"]["waygraph.kinds"]
    (tmp_path / "site").mkdir()
    install(tmp_path / "site", "acme", {value.partition(":")[0]: module for value in points.values()}, points)
    bots = json.loads(document)
    bots["bots"] += [5, {"handle": "deck", "commands": [7, {"name": "swab"}]}]
    path = tmp_path / "bots.json"
    path.write_text(json.dumps(bots), encoding="utf-8")
    with on_path(tmp_path / "site"):
        [manifest] = read_path(str(path), Settings())
    assert {entry.key: [tool.name for tool in entry.tools] for entry in manifest.entries} == {
        "harbour": ["book", "leave"],
        "galley": [],
        "deck": ["swab"],
    }
    assert [rejected.where.rpartition("#")[2] for rejected in manifest.rejected] == ["/bots/2", "/bots/3/commands/0"]
    [harbour] = [entry for entry in manifest.entries if entry.key == "harbour"]
    assert json.loads(harbour.tools[0].input_schema)["properties"] == {"ship": {"type": "string"}}


def test_every_kind_is_on_the_page() -> None:
    told = " ".join(cells[0] for cells in rows(PAGE))
    assert [kind.name for kind in BUILT_IN_KINDS if f"`{kind.name}`" not in told] == []
