"""The size and order of the code as a table: what it was, what it is, what is asked.

`python -m scripts.measure_house`, a part of `make house`. The points marked `!` fail it. `was` is commit 0a75347b.
A size fails above its ceiling in ceilings.toml, and where the ceiling lies far above it: `--lower` brings all down to
what is measured.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import grimp
import networkx as nx

from tests.architecture.names import headings, participle_functions, participle_shares, unknown_names
from tests.architecture.participles import new_participles
from tests.architecture.tree import ROOT, modules, syntax

CEILINGS = ROOT / "scripts" / "ceilings.toml"
SLACK = 0.005
"""Of a ceiling: so far below it a size may be before the ceiling has to follow."""
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
SCRIPTS = ("api/web", "registry/storage/export")
LAB = (ROOT / "packages" / "waygraph-lab", TESTS / "lab")
LONGEST = 60
"""Lines of a function's body."""


class Point(NamedTuple):
    name: str
    was: str
    now: str
    asked: str
    is_met: bool
    fails: bool = False


class Size(NamedTuple):
    """A count that may not grow. `most`: its ceiling in the repository; `asked`: where it is to end."""

    name: str
    was: str
    now: int
    most: int
    asked: int

    @property
    def point(self) -> Point:
        if self.now > self.most:
            name = f"{self.name} (above the ceiling of {self.most:,})"
        elif self.now < self.most * (1 - SLACK):
            name = f"{self.name} (ceiling of {self.most:,}: run with --lower)"
        else:
            return Point(self.name, self.was, f"{self.now:,}", f"<= {self.asked:,}", is_met=True, fails=True)
        return Point(name, self.was, f"{self.now:,}", f"<= {self.asked:,}", is_met=False, fails=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.measure_house", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to what is measured")
    files = list(modules().values())
    sizes = list(measure_sizes(files))
    if parser.parse_args().lower:
        lower_ceilings(sizes)
        sizes = list(measure_sizes(files))
    points = [*measure(files), *(size.point for size in sizes)]
    rows = [("point", "was", "now", "asked"), *(_row(point) for point in points)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return int(any(point.fails and not point.is_met for point in points))


def _row(point: Point) -> tuple[str, str, str, str]:
    return (f"{'! ' if point.fails else ''}{point.name}", point.was, point.now, point.asked)


def measure_sizes(files: Sequence[Path]) -> Iterator[Size]:
    """Of the product, in lines of code without blanks, comments and docstrings, and of the tests, in lines."""
    ceilings = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))
    scripts = [path for folder in SCRIPTS for path in (ROOT / folder).rglob("*.js") if "vendor" not in path.parts]
    lab = {path for folder in LAB for path in folder.rglob("*.py")}
    circles = count_circles({(str(path), str(other)) for path in scripts for other in imports_of(path)})
    for name, was, now, asked in (
        ("code lines of the product", "47,100", sum(map(code_lines, files)), 47_000),
        ("modules of the product", "323", len(files), 310),
        ("code lines of JavaScript", "-", sum(map(script_lines, scripts)), 4_000),
        ("import circles of JavaScript", "-", circles, 0),
        ("test lines", "62,500", count_lines(set(TESTS.rglob("*.py")) - lab), 70_000),
    ):
        yield Size(name, was, now, ceilings[name], asked)


def lower_ceilings(sizes: Iterable[Size]) -> None:
    text = CEILINGS.read_text(encoding="utf-8")
    for size in sizes:
        text = text.replace(f'"{size.name}" = {size.most}\n', f'"{size.name}" = {min(size.now, size.most)}\n')
    CEILINGS.write_text(text, encoding="utf-8")


def measure(files: Sequence[Path]) -> Iterator[Point]:
    yield at_most("headings inside modules", "128", len(headings()), 0, fails=True)
    yield at_most("names in comments that are not there", "20", len(unknown_names()), 0, fails=True)
    yield at_most("new participles", "-", len(new_participles()), 0, fails=True)
    yield at_most("functions named by a participle", "0", len(participle_functions()), 0, fails=True)
    yield at_most(f"functions of more than {LONGEST} lines", "0", len(list(long_functions(files))), 0, fails=True)
    graph = grimp.build_graph("waygraph", cache_dir=None)
    arrows = {(module, other) for module in graph.modules for other in graph.find_modules_directly_imported_by(module)}
    yield at_most("arrows back up inside a layer", "0", count_arrows_up(arrows), 0, fails=True)
    yield at_most("import circles", "0", count_circles(arrows), 0, fails=True)
    shares = participle_shares(files)
    for kind, was in (("variable", "13.9 %"), ("parameter", "8.3 %"), ("class", "13.6 %")):
        yield Point(f"participles among names: {kind}", was, f"{shares[kind]:.1%}", "<= 2 %", shares[kind] <= 0.02)
    lab = [path for folder in LAB for path in folder.rglob("*.py")]
    yield at_most("lines of the lab, its tests included", "-", count_lines(lab), None)
    pages = [*sorted(DOCS.glob("*.md")), *sorted((ROOT / "evals").glob("*.md"))]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    yield at_most("words in docs/ and evals/", "71,000", words, 45_000)


def at_most(name: str, was: str, now: int, most: int | None, *, fails: bool = False) -> Point:
    asked = "-" if most is None else f"<= {most:,}" if most else "0"
    return Point(name, was, f"{now:,}", asked, most is None or now <= most, fails)


def code_lines(path: Path) -> int:
    """Lines that hold code: no blanks, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    remarks: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                remarks.update(range(node.lineno, end + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - remarks)


_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def script_lines(path: Path) -> int:
    """Lines of JavaScript that hold code: no blanks and comments."""
    text = _SCRIPT_COMMENT.sub("", path.read_text(encoding="utf-8"))
    return sum(bool(line.strip()) for line in text.splitlines())


_SCRIPT_COMMENT = re.compile(r"^\s*(/\*.*?\*/|//[^\n]*)", re.MULTILINE | re.DOTALL)
_SCRIPT_IMPORT = re.compile(r"""(?:from|import|import\()\s*["'](\.[^"']+\.js)["']""")


def imports_of(path: Path) -> Iterator[Path]:
    """Modules beside it that a module of JavaScript imports."""
    for name in _SCRIPT_IMPORT.findall(path.read_text(encoding="utf-8")):
        yield (path.parent / name).resolve()


def long_functions(files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first, last = node.body[0].lineno, node.body[-1].end_lineno or 0
                if last - first >= LONGEST:
                    yield f"{path}:{node.lineno} {node.name}"


def count_lines(files: Iterable[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def count_circles(arrows: set[tuple[str, str]]) -> int:
    """Groups of modules that import each other, over others too; imports for types alone included."""
    groups = nx.strongly_connected_components(nx.DiGraph(arrows))
    return sum(len(group) > 1 for group in groups)


def count_arrows_up(arrows: set[tuple[str, str]]) -> int:
    """Pairs of rooms of one layer of which the lower imports the upper."""
    heights = {f"waygraph.{layer}": room_heights(layer) for layer in ("registry", "ingest", "api")}
    upward = set()
    for module, other in arrows:
        (*layer, room), (*other_layer, other_room) = module.split(".")[:3], other.split(".")[:3]
        height = heights.get(".".join(layer), {})
        if layer == other_layer and height.get(room, 0) < height.get(other_room, 0):
            upward.add((*layer, room, other_room))
    return len(upward)


def room_heights(layer: str) -> dict[str, int]:
    """Room → its height, by the contract of this layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [order] = [each["layers"] for each in contracts if each.get("containers") == [f"waygraph.{layer}"]]
    return {
        room.strip(" ()"): len(order) - place for place, level in enumerate(order) for room in re.split("[:|]", level)
    }


if __name__ == "__main__":
    sys.exit(main())
