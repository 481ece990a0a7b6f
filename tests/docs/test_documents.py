"""The documents are true where a machine can tell: tables against the code, examples run, links lead somewhere."""

import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from scripts.photograph_pages import PHOTOS
from tests.architecture.tree import foreign_imports, modules, project
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, name, prose, rows
from waygraph import RECIPES, Settings
from waygraph.ingest.sources.formats.catalogue import CatalogueAgent, CatalogueTool, json_schema
from waygraph.ingest.sources.kinds import BUILT_IN_KINDS
from waygraph.ingest.sources.read import read_path
from waygraph.registry.embedding.embedder import OPTIONS

IMPORT_NAMES = {
    "jsonschema-rs": "jsonschema_rs",
    "PyJWT": "jwt",
    "pydantic-monty": "pydantic_monty",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "pystemmer": "Stemmer",
    "pyyaml": "yaml",
    "python-dotenv": "dotenv",
    "sentence-transformers": "sentence_transformers",
    "sse-starlette": "sse_starlette",
}
WORKS_UNSEEN = {"accelerate", "httptools", "neo4j-rust-ext", "sandlock", "testcontainers", "uvloop"}
"""Another package of ours, or the tests, take them up where they are installed; of one its C library is called."""
OF_THIS_MACHINE = re.compile(r"/work/|/root/|/home/|pyenv/versions|site-packages")
LINK = re.compile(r"\[[^\]]+\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")


def anchors(page: Path) -> set[str]:
    """The headings as GitHub links to them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link between documents names a file that is there, and a heading that is in it."""
    for target, anchor in LINK.findall(prose(page)):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        assert not anchor or anchor[1:] in anchors(file), anchor


def test_the_pictures_of_the_explorer_are_those_that_are_taken() -> None:
    """Each is small, and stands on a page; `python -m scripts.photograph_pages` takes them anew."""
    taken = {photo.file for photo in PHOTOS if photo.is_kept}
    assert {picture.name for picture in (DOCS / "figures").glob("*.png")} == taken
    assert set(re.findall(r"figures/(explorer-[\w-]+\.png)", "".join(page.read_text() for page in PAGES))) == taken
    assert all((DOCS / "figures" / picture).stat().st_size < 80_000 for picture in taken)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_document_tells_of_a_machine(page: Path) -> None:
    """No path of the machine on which it was written stands in a document."""
    assert OF_THIS_MACHINE.findall(page.read_text(encoding="utf-8")) == []


def test_every_setting_is_documented_with_its_default() -> None:
    """docs/settings.md lists the fields of Settings, in their order, each with its default."""
    told = [(cells[0], cells[1]) for cells in rows(DOCS / "settings.md")[1:]]
    assert told == [(f"`{field.name}`", str(field.default or "(empty)")) for field in fields(Settings)]


def test_every_recipe_is_documented_with_its_legs() -> None:
    """docs/concepts.md says of each recipe which legs it fuses, and with which share."""
    told = {cells[0]: cells[1] for cells in rows(DOCS / "concepts.md") if len(cells) == 3}
    for recipe in RECIPES.values():
        legs = ", ".join(f"{use.leg} {use.share:g}" for use in recipe.legs)
        assert told[f"`{recipe.name}`"] == legs


def test_every_embedder_and_option_is_documented() -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    assert [scheme for scheme in OPTIONS if f"`{scheme}:" not in text and f"`{scheme}`" not in text] == []
    assert [option for options in OPTIONS.values() for option in options if f"?{option}=" not in text] == []


def test_every_kind_of_file_is_documented() -> None:
    told = {cells[0] for cells in rows(DOCS / "sources.md")}
    assert {f"`{kind.name}`" for kind in BUILT_IN_KINDS} <= told


def test_every_dependency_has_its_reason() -> None:
    """docs/dependencies.md lists what pyproject.toml asks for, and says which of it no code imports yet."""
    listed = [*project()["project"]["dependencies"]]
    for extra in project()["project"]["optional-dependencies"].values():
        listed += extra
    imported = {foreign for path in modules().values() for foreign in foreign_imports(path)}
    told = {cells[0]: cells[1] for cells in rows(DOCS / "dependencies.md") if cells[0].startswith("`")}
    names = {re.split(r"[^\w.-]", entry)[0] for entry in listed} - {"waygraph"}
    for dependency in names:
        unused = IMPORT_NAMES.get(dependency, dependency) not in imported and dependency not in WORKS_UNSEEN
        assert ("not used yet" in told[f"`{dependency}`"].lower()) == unused, dependency
    groups = project()["dependency-groups"].values()
    dev = {re.split(r"[^\w.-]", entry)[0] for group in groups for entry in group if isinstance(entry, str)}
    assert {cell.strip("`") for cell in told} == names | dev


def test_the_published_schema_is_current() -> None:
    """docs/catalog.schema.json is what the code that reads catalogues says; `make docs` writes it."""
    assert json.loads((DOCS / "catalog.schema.json").read_text(encoding="utf-8")) == json_schema()


def test_every_field_of_a_catalogue_is_documented() -> None:
    told = {word for cells in rows(DOCS / "sources.md") for word in re.findall(r"`(\w+)`", cells[0])}
    models = (CatalogueAgent, CatalogueTool)
    assert {field.alias or key for model in models for key, field in model.model_fields.items()} <= told


def catalogues() -> list[Any]:
    files = sorted((ROOT / "examples" / "catalog").glob("*.yaml"))
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in files]
    texts += [(f"sources.md {number}", text) for number, text in enumerate(blocks(DOCS / "sources.md", "yaml"))]
    return [pytest.param(yaml.safe_load(text), id=where) for where, text in texts]


@pytest.mark.parametrize("document", catalogues())
def test_example_catalogues_fit_the_schema(document: object) -> None:
    """Every file under examples/catalog and every catalogue in docs/sources.md is valid."""
    jsonschema.Draft202012Validator(json_schema()).validate(document)


def test_documented_catalogues_are_taken_whole(tmp_path: Path) -> None:
    """What docs/sources.md shows is ingested without a record rejected."""
    for number, text in enumerate(blocks(DOCS / "sources.md", "yaml")):
        (tmp_path / f"{number}.yaml").write_text(text, encoding="utf-8")
    (manifest,) = read_path(str(tmp_path), Settings())
    assert [entry.key for entry in manifest.entries] == ["bureau-fx", "quillfeather"]
    assert manifest.rejected == ()


def test_the_library_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of docs/library.md run one after the other, in a folder with the example catalogue."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(DOCS / "library.md", "python"):
        exec(compile(block, "docs/library.md", "exec"), names)  # noqa: S102 - that is what is tested


def test_the_changelog_is_in_form() -> None:
    """It has a part for what is unreleased, and one for the version that pyproject.toml states."""
    versions = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert project()["project"]["version"] in versions


def test_the_licence_is_whole() -> None:
    """LICENSE is the text of Apache-2.0, with our name in it, and pyproject.toml says so."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "9. Accepting Warranty or Additional Liability." in text
    assert "The Waygraph developers" in text
    assert project()["project"]["license"] == "Apache-2.0"
