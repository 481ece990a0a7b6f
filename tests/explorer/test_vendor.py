"""What the pages are made of: vendored files are those of vendor.json, nothing is left over, and little is sent."""

import gzip
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parents[2] / "api" / "web"
EXPORT = WEB.parents[1] / "registry" / "storage" / "export"
"""What the exported map and the pages share."""
MOST_BYTES = 60_000
_STATIC = re.compile(r"""^(?:import|export)\b[^"'(]*?["'](\.{1,2}/[^"']+)["']""", re.MULTILINE)
_IMPORT = re.compile(r"""(?:from\s*|import\s*\(?\s*)["'](\.{1,2}/[^"']+)["']""")


def vendored() -> dict[str, dict[str, object]]:
    document = json.loads((WEB / "vendor" / "vendor.json").read_text("utf-8"))
    return {each["file"]: each for each in document["files"]}


def imported(names: list[str], pattern: "re.Pattern[str]") -> set[Path]:
    """These modules, and what they import by `pattern`, and so on."""
    waiting, seen = [WEB / name for name in names], set[Path]()
    while waiting:
        path = waiting.pop().resolve()
        path = path if path.is_file() else EXPORT / path.name
        if path not in seen:
            seen.add(path)
            waiting += [path.parent / name for name in pattern.findall(path.read_text("utf-8"))]
    return seen


def first_page_bytes() -> int:
    """Of all that a browser loads before it shows the first page, each packed by gzip."""
    files = imported(["app.js", "pages/ask.js"], _STATIC) | {WEB / "index.html", WEB / "style.css"}
    return sum(len(gzip.compress(path.read_bytes())) for path in files)


def test_every_vendored_file_is_named_with_its_hash() -> None:
    """And names what it is made of, each with its licence."""
    files = {
        path.relative_to(WEB / "vendor").as_posix(): path for path in (WEB / "vendor").rglob("*") if path.is_file()
    }
    del files["vendor.json"]
    assert files.keys() == vendored().keys()
    for name, told in vendored().items():
        assert sha256(files[name].read_bytes()).hexdigest() == told["sha256"], f"{name}: run scripts/vendor_pages"
        assert told["of"]


def test_the_licence_of_each_is_told(root: Path) -> None:
    page = (root / "docs" / "dependencies.md").read_text("utf-8")
    for told in vendored().values():
        for each in told["of"]:  # type: ignore[attr-defined]
            assert f"`{each['package']}`" in page, each
            assert each["licence"] in page, each


def test_every_module_is_imported_by_another() -> None:
    assert {path.resolve() for path in WEB.rglob("*.js")} - imported(["app.js"], _IMPORT) == set()


def test_one_part_draws_every_form() -> None:
    drawn = re.compile(r"<(?:form|input|select|textarea)\b")
    pages = [path for path in WEB.rglob("*.js") if path.parent.name != "vendor"]
    assert [path.name for path in pages if drawn.search(path.read_text("utf-8"))] == ["fields.js"]


def test_what_the_page_names_is_there() -> None:
    names = re.findall(r'"/explore/files/([^"]+)"', (WEB / "index.html").read_text("utf-8"))
    assert names
    assert all((WEB / name).is_file() for name in names)


def test_the_first_page_is_small() -> None:
    if first_page_bytes() > MOST_BYTES:
        pytest.fail(f"{first_page_bytes():,} bytes by gzip: at most {MOST_BYTES:,}")
