"""Where an answer goes: drawn on a terminal, plain in a pipe, or JSON; remarks and errors go to stderr.

JSON is one document: indented on a terminal, one line in a pipe.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import batched, chain
from typing import NoReturn

from waygraph.api.cli.render.blocks import (
    PIPED_CHARS,
    Aside,
    Block,
    Fields,
    Lines,
    Table,
    cell_texts,
    many_lines,
    one_line,
)
from waygraph.api.telemetry.escaping import escape_unsafe


def plain_texts(blocks: Iterable[Block], *, brief: bool = False) -> Iterator[str]:
    """The text of each block but the asides, a blank line between them. `brief` cuts the columns that may be cut."""
    first = True
    for block in blocks:
        if isinstance(block, Aside):
            continue
        text = _plain(block, brief)
        yield text if first else f"\n{text}"
        first = False


def _plain(block: Table | Fields | Lines, brief: bool) -> str:
    match block:
        case Table():
            texts = cell_texts([*block.columns, *chain.from_iterable(block.rows)])
            columns, *rows = batched(texts, len(block.columns))
            lines = ["\t".join(columns), *("\t".join(_cut(block, row) if brief else row) for row in rows)]
            return _title_lines(block.title, lines)
        case Fields():
            pairs = block.filled_pairs
            texts = cell_texts(value for _, value in pairs)
            return "\n".join(f"{name}\t{text}" for (name, _), text in zip(pairs, texts, strict=True))
        case Lines():
            return _title_lines(block.title, [many_lines(block.text)])


def _cut(table: Table, row: Sequence[str]) -> Iterator[str]:
    for column, text in zip(table.columns, row, strict=True):
        is_cut = column in table.brief and len(text) > PIPED_CHARS
        yield f"{text[: PIPED_CHARS - 1]}…" if is_cut else text


def _title_lines(title: str, lines: list[str]) -> str:
    return "\n".join([one_line(title), *lines] if title else lines)


BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell reports a program that the signal ended."""

_UNWRITTEN = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})


def show[T](
    thing: T,
    shape: Callable[[T], object],
    view: "Callable[[T], Iterable[Block]]",
    as_json: bool,
    *,
    brief: bool = False,
) -> None:
    """Prints `thing` in its documented JSON shape, or as `view` lays it out; `brief`: a list, cut in a pipe too."""
    if as_json:
        import json

        indent = 2 if sys.stdout.isatty() else None
        _out(escape_unsafe(json.dumps(shape(thing), ensure_ascii=False, indent=indent)))
    elif sys.stdout.isatty():
        from waygraph.api.cli.render.terminal import draw

        draw(view(thing))
    else:
        for text in plain_texts(view(thing), brief=brief):
            _out(text)


def print_raw(text: str) -> None:
    """A file's content: byte for byte in a pipe, escaped on a terminal."""
    _out(escape_unsafe(text) if sys.stdout.isatty() else text, end="")


def print_line(text: str) -> None:
    """One line of many, which is read as it comes."""
    _out(text)
    with suppress(BrokenPipeError):  # the next line finds it closed, and ends
        sys.stdout.flush()


def note(text: str) -> None:
    """A remark beside the answer, on stderr."""
    if text:
        print(f"note: {one_line(text)}", file=sys.stderr)  # noqa: T201 - printing is what this module is for


def complain(text: str) -> None:
    """What went wrong, in one line on stderr."""
    print(f"error: {one_line(text)}", file=sys.stderr)  # noqa: T201


def leave_unwritten(error: OSError) -> NoReturn:
    """Ends when stdout takes nothing more: quietly if nobody reads it, else with the reason.

    Keeps the interpreter from flushing it once more at exit.
    """
    nobody_reads = isinstance(error, BrokenPipeError)
    if not nobody_reads:
        complain(f"standard output cannot be written: {error.strerror}")
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(BROKEN_PIPE if nobody_reads else 1)


def is_of_a_stream(error: OSError) -> bool:
    """Whether a stream takes nothing more. An error of a file names the file, or is already an error of ours."""
    return error.filename is None and error.errno in _UNWRITTEN


def flush() -> None:
    """Ends the program if stdout does not take what was printed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        leave_unwritten(error)


def open_closed_streams() -> None:
    """Stdin, stdout and stderr where whoever started this closed them, so that no file we open gets their number.

    A closed stdout takes nothing, as before. Messages for a closed stderr are dropped.
    """
    for name, flags, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - till the end


def _out(text: str, *, end: str = "\n") -> None:
    try:
        print(text, end=end)  # noqa: T201
    except OSError as error:
        leave_unwritten(error)
