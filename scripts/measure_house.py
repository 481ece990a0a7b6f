"""The size and order of the house, as a table: before the redrawing, now, and what is asked.

`python -m scripts.measure_house`; `make house` also traces an ingest. No figure fails it.

Figures of before are the plan's, for commit 5784b52. In brackets stands what this script counts there, where it counts
otherwise.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp
import networkx as nx

from tests.architecture.arrays import array_functions
from tests.architecture.names import participle_functions, shared_file_names
from tests.architecture.tree import PARTS, ROOT, modules

DOCS = ROOT / "docs"


def main() -> None:
    rows = [("point", "before", "now", "asked"), *measure()]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def measure() -> Iterator[tuple[str, str, str, str]]:
    """Point, figure at commit 5784b52, figure now, figure asked."""
    graph = grimp.build_graph(*(f"waygraph.{part}" for part in PARTS), cache_dir=None)
    arrows = {(module, other) for module in graph.modules for other in graph.find_modules_directly_imported_by(module)}
    files = list(modules().values())
    yield "product modules", "485", f"{len(files)}", "<= 230"
    yield "product lines", "53,000", f"{count_lines(files):,}", "<= 44,000"
    yield "import circles", "8", f"{count_circles(arrows)}", "0"
    yield "arrows back up inside a layer", "7", f"{count_arrows_up(arrows)}", "0"
    for part, before, most in (("registry", 47, 11), ("ingest", 30, 10), ("api", 6, 4)):
        yield f"rooms of {part}", str(before), str(len(rooms(part))), f"<= {most}"
    yield "functions named by a participle", "496", str(len(participle_functions())), "0"
    yield "file names used twice in a layer", "20-odd", str(len(shared_file_names())), "0"
    arrays = array_functions()
    share = sum(function.is_documented for function in arrays) / len(arrays)
    yield "public arrays with shape and dtype", "23 %", f"{share:.0%}".replace("%", " %"), ">= 80 %"
    yield "test lines", "60,500", f"{count_lines((ROOT / 'tests').rglob('*.py')):,}", "<= 42,000"
    pages = sorted(DOCS.glob("*.md"))
    texts = [page.read_text(encoding="utf-8") for page in pages]
    yield "pages in docs/", "31", str(len(pages)), "<= 20"
    yield "words in docs/", "63,000", f"{sum(len(text.split()) for text in texts):,}", "<= 35,000"
    lengths = sorted(length for text in texts for length in sentence_lengths(text))
    yield "90th percentile of a sentence, words", "49 (31)", str(lengths[len(lengths) * 9 // 10]), "<= 28"
    yield "lines of docs/architecture.md", "314", str(count_lines([DOCS / "architecture.md"])), "<= 100"


def count_lines(files: Iterable[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def count_circles(arrows: set[tuple[str, str]]) -> int:
    """Groups of modules that import each other, over others too; imports for types alone included."""
    groups = nx.strongly_connected_components(nx.DiGraph(arrows))
    return sum(len(group) > 1 for group in groups)


def count_arrows_up(arrows: set[tuple[str, str]]) -> int:
    """Pairs of rooms of one layer of which the lower imports the upper."""
    heights = {f"waygraph.{layer}": room_heights(layer) for layer in ("registry", "ingest", "api")}
    found = set()
    for module, other in arrows:
        (*layer, room), (*other_layer, other_room) = module.split(".")[:3], other.split(".")[:3]
        height = heights.get(".".join(layer), {})
        if layer == other_layer and height.get(room, 0) < height.get(other_room, 0):
            found.add((*layer, room, other_room))
    return len(found)


def room_heights(layer: str) -> dict[str, int]:
    """Room → its height, by the contract of this layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [order] = [each["layers"] for each in contracts if each.get("containers") == [f"waygraph.{layer}"]]
    return {
        room.strip(" ()"): len(order) - place for place, level in enumerate(order) for room in re.split("[:|]", level)
    }


def rooms(layer: str) -> set[str]:
    """The packages and modules at the top of a layer."""
    return {
        path.relative_to(ROOT / layer).parts[0] for path in modules().values() if path.is_relative_to(ROOT / layer)
    } - {"__init__.py"}


def sentence_lengths(text: str) -> Iterator[int]:
    """Words of each sentence of the prose: without code, tables, headings and link addresses."""
    prose = re.sub(r"(?ms)^ *```.*?^ *```|<!--.*?-->|^ *\|.*?$|^#.*?$", "\n\n", text)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", prose):
        for sentence in re.split(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`\[A-Z])", block):
            if words := len(sentence.split()):
                yield words


if __name__ == "__main__":
    main()
