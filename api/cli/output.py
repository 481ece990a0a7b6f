"""Where an answer goes: drawn on a terminal, plain in a pipe, or JSON; remarks and errors go to stderr.

JSON is one document: indented on a terminal, one line in a pipe.
"""

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from waygraph.api.cli.escaping import escaped, one_line

if TYPE_CHECKING:
    from waygraph.api.cli.blocks import Block

BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell reports a program that the signal ended."""


def show[T](thing: T, shape: Callable[[T], object], view: "Callable[[T], Iterable[Block]]", as_json: bool) -> None:
    """Prints `thing` in its documented JSON shape, or as `view` lays it out."""
    if as_json:
        import json

        indent = 2 if sys.stdout.isatty() else None
        _out(escaped(json.dumps(shape(thing), ensure_ascii=False, indent=indent)))
    elif sys.stdout.isatty():
        from waygraph.api.cli.terminal import draw

        draw(view(thing))
    else:
        from waygraph.api.cli.plain import plain_texts

        for text in plain_texts(view(thing)):
            _out(text)


def print_raw(text: str) -> None:
    """A file's content: byte for byte in a pipe, escaped on a terminal."""
    _out(escaped(text) if sys.stdout.isatty() else text)


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


def leave_closed_pipe() -> NoReturn:
    """Ends quietly when nobody reads stdout any more, and keeps the interpreter from flushing it at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(BROKEN_PIPE)


def _out(text: str) -> None:
    try:
        print(text)  # noqa: T201
    except BrokenPipeError:
        leave_closed_pipe()
