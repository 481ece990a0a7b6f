"""Blocks in a pipe: a header and tab-separated rows, whole, without colour."""

from collections.abc import Iterable, Iterator

from waygraph.api.cli.shown.blocks import Aside, Block, Fields, Lines, Table, cell_text
from waygraph.api.cli.shown.escaping import many_lines, one_line


def plain_texts(blocks: Iterable[Block]) -> Iterator[str]:
    """The text of each block but the asides, a blank line between them."""
    first = True
    for block in blocks:
        if isinstance(block, Aside):
            continue
        yield _plain(block) if first else f"\n{_plain(block)}"
        first = False


def _plain(block: Table | Fields | Lines) -> str:
    match block:
        case Table():
            rows = ("\t".join(map(cell_text, row)) for row in block.rows)
            return _titled(block.title, ["\t".join(map(one_line, block.columns)), *rows])
        case Fields():
            return "\n".join(f"{name}\t{cell_text(value)}" for name, value in block.said)
        case Lines():
            return _titled(block.title, [many_lines(block.text)])


def _titled(title: str, lines: list[str]) -> str:
    return "\n".join([one_line(title), *lines] if title else lines)
