"""Blocks on a terminal, drawn by rich. Nothing is markup: every text is drawn as it is."""

from collections.abc import Iterable

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from waygraph.api.cli.render.blocks import (
    Aside,
    Bar,
    Block,
    Cell,
    Fields,
    Lines,
    Table,
    cell_text,
    many_lines,
    one_line,
)

BAR_CELLS = 10
GAP_CELLS = 3
"""Between two columns."""
LEAST_BRIEF_CELLS = 20


def draw(blocks: Iterable[Block]) -> None:
    console = Console(markup=False, highlight=False, emoji=False)
    for block in blocks:
        _draw(block, console)


def _draw(block: Block, console: Console) -> None:
    match block:
        case Table():
            console.print(_table(block, console.width))
        case Fields():
            console.print(_fields(block))
        case Lines():
            title = f"\n{one_line(block.title)}" if block.title else ""
            console.print(*([Text(title, style="bold")] if title else []))
            console.print(Text(many_lines(block.text)), overflow="fold")
        case Aside():
            console.print(Text(one_line(block.text), style="dim"))


def _table(block: Table, width: int) -> RichTable:
    """Numbers stand to the right, a brief column takes the room that is left, any other one is folded, never cut."""
    title = Text(one_line(block.title), style="bold") if block.title else None
    table = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    cells = [[_cell(cell) for cell in row] for row in block.rows]
    room = _room_left(block, cells, width)
    for number, name in enumerate(block.columns):
        brief, kind = name in block.brief, type(block.rows[0][number]) if block.rows else str
        table.add_column(
            Text(one_line(name)),
            justify="right" if kind in (int, float) else "left",
            no_wrap=brief or kind in (int, float, Bar),
            overflow="ellipsis" if brief else "fold",
            max_width=room if brief else None,
        )
    for row in cells:
        table.add_row(*row)
    return table


def _room_left(block: Table, cells: list[list[Text]], width: int) -> int:
    """The cells of a line that the columns other than the brief one leave over."""
    total = 0
    for number, name in enumerate(block.columns):
        if name not in block.brief:
            total += max(cell_len(name), *(row[number].cell_len for row in cells), 0)
    return max(LEAST_BRIEF_CELLS, width - total - GAP_CELLS * len(block.columns))


def _fields(block: Fields) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in block.filled_pairs:
        grid.add_row(Text(name), _cell(value))
    return grid


def _cell(cell: Cell) -> Text:
    if isinstance(cell, Bar):
        return Text("█" * max(1, round(cell.share * BAR_CELLS)), style="cyan")
    return Text(cell_text(cell))
