"""A file that calls itself an export: names, texts and numbers in it are held to what this program would write."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import RegistryUnusable, SourceError, UnknownName
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.migrate import migrate_at
from waygraph.registry.taxonomy.taxonomies import set_taxonomy
from waygraph.registry.taxonomy.tree import MAX_DEPTH, By, Category, Taxonomy

pytestmark = pytest.mark.attack
type Export = dict[str, Any]
type Change = Callable[[Export], object]

BIDI, TAG, ZERO_WIDTH, CONTROL = "pay\u202egnp", "pay\U000e0041\U000e0042", "pa\u200by", "pay\x1b[2J"
UNREADABLE = [BIDI, TAG, ZERO_WIDTH, CONTROL, "half \ud800 of it"]


def tree() -> Taxonomy:
    root = Category(id="root", name="", children=("pay", "see"), holds={})
    pay = Category(id="pay", name="pay", depth=1, holds={"alpha": By.VECTORS}, examples=("alpha",))
    see = Category(id="see", name="see", depth=1, holds={})
    return Taxonomy(
        name="main", of=Of.AGENTS, built_by="vectors", categories={each.id: each for each in (root, pay, see)}
    )


def export() -> Export:
    agent = {"id": "alpha", "name": "alpha", "description": "Pays.", "tools": [{"name": "go", "description": "Goes."}]}
    setting = {"agent_id": "alpha", "tags": ["ours"], "visible_to": ["crew"], "pinned": True, "hidden": False}
    return {
        "waygraph_export": 1,
        "agents": [agent],
        "sources": [{"name": "one", "namespace": "", "rank": 0, "claims": [["alpha", "alpha"]]}],
        "operator": [setting | {"removed": False, "tools": {"go": {"name": "went", "parameters": {"n": {"pin": 1}}}}}],
        "taxonomies": [json.loads(json.dumps(tree().as_json()))],
        "toolsets": [{"name": "mine", "description": "Of mine.", "agents": ["alpha"]}],
    }


def written(folder: Path, *changes: Change) -> Path:
    document = export()
    for change in changes:
        change(document)
    path = folder / "export.json"
    path.write_text(json.dumps(document), encoding="utf-8", errors="surrogatepass")
    return path


def read(path: Path) -> Any:
    return read_path(str(path), Settings(), kind="export")


def put(*place: str | int, value: object) -> Change:
    def change(document: Export) -> None:
        at: Any = document
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = value

    return change


def test_a_sound_export_is_restored(tmp_path: Path) -> None:
    with LocalRegistry.open(tmp_path / "tools.grafeo", embedder="none") as registry:
        for manifest in read(written(tmp_path)):
            sync(registry, manifest)
        restored = registry.operator.taxonomy("main")
        assert restored
        assert {"", "pay"} <= {each.name for each in restored.categories.values()}
        assert registry.tool("alpha/go").name == "went"
        assert registry.toolset("mine").description == "Of mine."


CATEGORY = ("taxonomies", 0, "categories", 1)
NAMES = {
    "a category": (*CATEGORY, "name"),
    "its id": (*CATEGORY, "id"),
    "its description": (*CATEGORY, "description"),
    "its boundary": (*CATEGORY, "boundary"),
    "a toolset's tag": ("toolsets", 0, "tags"),
    "a source": ("sources", 0, "name"),
    "a namespace": ("sources", 0, "namespace"),
    "a tag": ("operator", 0, "tags"),
    "a group": ("operator", 0, "visible_to"),
    "a tool": ("operator", 0, "tools", "go", "name"),
    "a parameter": ("operator", 0, "tools", "go", "parameters", "n", "name"),
}


@pytest.mark.parametrize("place", NAMES.values(), ids=list(NAMES))
@pytest.mark.parametrize("text", [*UNREADABLE, "long" * 6_000], ids=ascii)
def test_a_name_that_nobody_could_read_is_refused(tmp_path: Path, place: tuple[str | int, ...], text: str) -> None:
    is_list = place[-1] in ("tags", "visible_to")
    with pytest.raises(SourceError) as refused:
        read(written(tmp_path, put(*place, value=[text] if is_list else text)))
    assert text not in str(refused.value)


@pytest.mark.parametrize("text", [BIDI, TAG, ZERO_WIDTH, "long" * 6_000], ids=ascii)
def test_a_description_that_hides_something_is_refused(tmp_path: Path, text: str) -> None:
    """It may have lines, and is read by models in place of the source's words."""
    with pytest.raises(SourceError):
        read(written(tmp_path, put("operator", 0, "tools", "go", "description", value=text)))
    assert read(written(tmp_path, put("operator", 0, "tools", "go", "description", value="Two\nlines.")))


def levels(*widths: int) -> Change:
    """A tree of so many categories at each depth, all of them below all of the depth before."""
    names = [["root"], *([f"c{depth}-{each}" for each in range(width)] for depth, width in enumerate(widths, 1))]
    rows = [
        {"id": name, "name": name, "depth": depth, "children": names[depth + 1] if depth < len(widths) else []}
        for depth, row in enumerate(names)
        for name in row
    ]
    fixed = {"description": "", "boundary": "", "axis": "", "holds": {}, "examples": []}
    return put("taxonomies", 0, "categories", value=[fixed | row for row in rows])


def test_a_tree_of_some_levels_is_read(tmp_path: Path) -> None:
    assert read(written(tmp_path, levels(*[1] * MAX_DEPTH)))
    assert read(written(tmp_path, levels(2, 2, 2)))


SHAPES = {
    "a chain that costs its length squared": levels(*[1] * 3_000),
    "a chain that is one too long": levels(*[1] * (MAX_DEPTH + 1)),
    "a ladder with 2^31 ways": levels(*[2] * 31),
    "two of one name": put(*CATEGORY, "name", value="see"),
    "a name with a slash": put(*CATEGORY, "name", value="pay/see"),
    "no name": put(*CATEGORY, "name", value=" "),
    "a child that is not there": put("taxonomies", 0, "categories", 0, "children", value=["pay", "none"]),
    "a category below none": put("taxonomies", 0, "categories", 0, "children", value=["pay"]),
    "a category twice": put("taxonomies", 0, "categories", 2, "id", value="pay"),
    "a circle": put(*CATEGORY, "children", value=["root"]),
    "by nobody": put(*CATEGORY, "holds", value={"alpha": "somebody"}),
    "a taxonomy's name": put("taxonomies", 0, "name", value="Main tree"),
    "fields of tools": put("operator", 0, "tools", value={"go": {"colour": "red"}}),
    "fields of parameters": put("operator", 0, "tools", "go", "parameters", value={"n": {"pinned": 1}}),
    "parameters in a list": put("operator", 0, "tools", "go", "parameters", value=["n"]),
    "a flag as a text": put("operator", 0, "tools", "go", "parameters", "n", "hidden", value="yes"),
}


@pytest.mark.parametrize("change", SHAPES.values(), ids=list(SHAPES))
def test_what_is_no_tree_or_no_setting_is_refused(tmp_path: Path, change: Change) -> None:
    with pytest.raises(SourceError):
        read(written(tmp_path, change))


COUNTS = [("calls",), ("revision",), ("prompt_tokens",), ("settings", "leaf_size"), ("settings", "generic_ratio")]


@pytest.mark.parametrize("place", [*COUNTS, ("categories", 1, "depth"), ("current",)], ids=str)
@pytest.mark.parametrize("number", ["1e999", "NaN", "-1", "9" * 400, "9" * 5_000, '"7"', "null", "[7]"])
def test_a_number_that_is_none_is_refused(tmp_path: Path, place: tuple[str | int, ...], number: str) -> None:
    path = written(tmp_path, put("taxonomies", 0, *place, value="?"))
    path.write_text(path.read_text().replace('"?"', number))
    with pytest.raises(SourceError):
        read(path)


def test_a_refused_export_leaves_a_registry_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")
    place = str(tmp_path / "tools.grafeo")
    path = written(tmp_path, put(*CATEGORY, "name", value=BIDI))
    assert main(["--registry", place, "ingest", str(path), "--kind", "export"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    if Path(place).exists():
        with pytest.raises(UnknownName):
            LocalRegistry.open(place, embedder="none").operator.taxonomy()


@pytest.mark.parametrize("name", [CONTROL, "a/b", "n" * 200])
def test_a_foreign_registry_with_such_a_name_is_not_copied(tmp_path: Path, name: str) -> None:
    """Its file may be anybody's, and no export was read on the way into it."""
    source, target = str(tmp_path / "theirs.grafeo"), str(tmp_path / "ours.grafeo")
    with LocalRegistry.open(source, embedder="none") as registry:
        for manifest in read(written(tmp_path)):
            sync(registry, manifest)
        whole = tree()
        odd = replace(whole.categories["pay"], name=name)
        bad = replace(whole, categories={**whole.categories, "pay": odd})
        registry.change(lambda session: set_taxonomy(session, bad, keep_current=False))
    with pytest.raises(RegistryUnusable, match="not as a build makes it"):
        migrate_at(source, target, Settings())
    with LocalRegistry.open(source, embedder="none") as registry:
        registry.forget_taxonomy("main")
    assert migrate_at(source, target, Settings()).agents == 1
