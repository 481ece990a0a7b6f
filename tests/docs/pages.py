"""The documents as their tests read them: pages, fenced blocks, tables."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("evals/*.md"), ROOT / "examples" / "README.md"])
_FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    """The fenced blocks of one kind, in order."""
    return [found["text"] for found in _FENCE.finditer(page.read_text(encoding="utf-8")) if found["kind"] == kind]


def block(page: Path, kind: str, mark: str) -> str:
    """The one fenced block of that kind which contains `mark`."""
    [found] = [text for text in blocks(page, kind) if mark in text]
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def rows(page: Path) -> list[list[str]]:
    """The cells of every table row, as written."""
    lines = [line for line in prose(page).splitlines() if line.startswith("|") and not line.startswith("|--")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))
