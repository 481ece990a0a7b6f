"""JSON with comments, and TOML, changed in place: what is not changed stays as it was written.

JSON stays to the byte; of TOML comments, order and line breaks stay. Offsets count characters of the text.
`without_comments` blanks comments and last commas and keeps every offset, so that the standard library's parser says
where each value stands.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from waygraph.ingest.sources.parse import without_comments
from waygraph.registry.model.foreign_text import BOM

_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/[ \t]*)*")
_LINE_END = re.compile(r"\r\n|\n|\r")
_DECODER = json.JSONDecoder()


class Unfit(Exception):
    """Why a text cannot be changed; it holds nothing of the text."""


@dataclass(frozen=True, slots=True)
class Member:
    """A name and its value in an object: from the name's first quote to behind the value's last character."""

    name: str
    start: int
    value_start: int
    end: int
    value: Any


def members(text: str, path: Sequence[str]) -> list[Member] | None:
    """Of the object at `path`, in order; None if there is none. Of names that come twice, the last counts."""
    plain = without_comments(text)
    start = _after_space(plain, 0)
    for name in path:
        matches = [member for member in _members(plain, start) if member.name == name]
        if not matches or not isinstance(matches[-1].value, dict):
            return None
        start = matches[-1].value_start
    return list(_members(plain, start))


def with_member(text: str, path: Sequence[str], name: str, value: Any) -> str:
    """The text with the member set: kept where it says so, replaced where it is, else put last.

    Makes objects of the path.
    """
    if (existing := members(text, path)) is None:
        if not path:
            raise Unfit("it is no object")
        return with_member(text, path[:-1], path[-1], {name: value})
    for member in reversed(existing):
        # The same JSON, in whatever order and layout; `1` is not `true`.
        if member.name == name and json.dumps(member.value, sort_keys=True) == json.dumps(value, sort_keys=True):
            return text
        if member.name == name:
            value_text = _format_value(value, text, _indent_of_line(text, member.start))
            return text[: member.value_start] + value_text + text[member.end :]
    return _append_member(text, path, existing, name, value)


def without_members(text: str, path: Sequence[str], names: Sequence[str]) -> str:
    """The text without these; names that are not there are no fault."""
    while True:
        existing = members(text, path) or []
        index = next((index for index, member in enumerate(existing) if member.name in names), None)
        if index is None:
            return text
        text = _cut(text, existing, index)


def _members(plain: str, start: int) -> Iterator[Member]:
    if plain[start : start + 1] != "{":
        raise Unfit("it is no object")
    at = _after_space(plain, start + 1)
    while plain[at] != "}":
        name, end = _DECODER.raw_decode(plain, at)
        value_start = _after_space(plain, _after_space(plain, end) + 1)
        value, end = _DECODER.raw_decode(plain, value_start)
        yield Member(name, at, value_start, end, value)
        at = _after_space(plain, end)
        if plain[at] == ",":
            at = _after_space(plain, at + 1)


def _after_space(plain: str, at: int) -> int:
    match = _SPACE.match(plain, at)
    return match.end() if match else at


# -- adding ----------------------------------------------------------------------------------------


def _append_member(text: str, path: Sequence[str], existing: list[Member], name: str, value: Any) -> str:
    opening = _object_start(text, path)
    if not existing:
        return _into_empty(text, opening, name, value)
    last = existing[-1]
    comma = _comma_after(text, last.end)
    on_lines = _LINE_END.search(text, opening, existing[0].start) is not None
    if not on_lines:
        member_text = f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        return f"{text[: last.end]}, {member_text}{text[last.end :]}"
    indent = _indent_of_line(text, last.start)
    member_text = f"{_newline(text)}{indent}{json.dumps(name)}: {_format_value(value, text, indent)}"
    if comma is not None:  # the file's own manner: a comma after the last one
        at = _end_of_line_there(text, comma + 1)
        return text[:at] + member_text + "," + text[at:]
    at = _end_of_line_there(text, last.end)
    return text[: last.end] + "," + text[last.end : at] + member_text + text[at:]


def _into_empty(text: str, opening: int, name: str, value: Any) -> str:
    """Before the brace that closes an empty object; comments in it stay."""
    closing = _after_space(without_comments(text), opening + 1)
    inside = text[opening + 1 : closing].rstrip()
    outer = _indent_of_line(text, opening)
    indent = outer + _step(text)
    line = _newline(text)
    member_text = f"{line}{indent}{json.dumps(name)}: {_format_value(value, text, indent)}{line}{outer}"
    return text[: opening + 1] + inside + member_text + text[closing:]


def _object_start(text: str, path: Sequence[str]) -> int:
    plain = without_comments(text)
    if not path:
        return _after_space(plain, 0)
    return next(member.value_start for member in reversed(members(text, path[:-1]) or []) if member.name == path[-1])


def _comma_after(text: str, end: int) -> int | None:
    """Where a comma stands between a last value and the brace, in the text as it was written."""
    at = end
    while True:
        at = _after_space(text, at)
        if text.startswith("//", at):
            line_end = _LINE_END.search(text, at)
            at = line_end.end() if line_end else len(text)
        elif text.startswith("/*", at):
            at = text.index("*/", at) + 2
        else:
            return at if text[at : at + 1] == "," else None


def _end_of_line_there(text: str, at: int) -> int:
    """Behind a comment on the same line, if nothing else stands there."""
    match = _REST_OF_LINE.match(text, at)
    end = match.end() if match else at
    return end if end == len(text) or _LINE_END.match(text, end) else at


def _format_value(value: Any, text: str, indent: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_step(text)).split("\n")
    return (_newline(text) + indent).join(lines)


def _newline(text: str) -> str:
    match = _LINE_END.search(text)
    return match[0] if match else "\n"


def _step(text: str) -> str:
    """The file's own indentation: that of its first indented line, two spaces without one."""
    match = re.search(r"(?:\r\n|\n|\r)([ \t]+)[\"}]", text)
    return match[1] if match else "  "


def _indent_of_line(text: str, at: int) -> str:
    line = text[max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


# -- removing --------------------------------------------------------------------------------------


def _cut(text: str, existing: list[Member], index: int) -> str:
    member = existing[index]
    start, end = member.start, member.end
    if (comma := _comma_after(text, end)) is not None:
        end = comma + 1
    # Of the last one, where the file has no comma after a last one:
    elif index and (before := _comma_after(text, existing[index - 1].end)) is not None:
        text = text[:before] + text[before + 1 :]
        start, end = start - 1, end - 1
        start = before if not text[before:start].strip(" \t") else start
    return text[: _line_start(text, start)] + text[_line_after(text, start, end) :]


def _line_start(text: str, at: int) -> int:
    """The line's begin, its break included, if nothing stands before; else the place itself."""
    start = at - len(_indent_of_line(text, at))
    if start and text[start - 1] in "\r\n" and not text[start:at].strip():
        return start - (2 if text[start - 2 : start] == "\r\n" else 1)
    return at


def _line_after(text: str, start: int, end: int) -> int:
    """Behind what is left of the member's last line: spaces, and a comment that belongs to it."""
    if _line_start(text, start) == start:
        return len(text) - len(text[end:].lstrip(" \t"))
    return _end_of_line_there(text, end)


_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_HEAD = re.compile(rf"\s*\[{{1,2}}\s*{_PART}(?:\s*\.\s*{_PART})*\s*\]{{1,2}}\s*(?:#.*)?$")
_CLOSED_TEXT = re.compile(r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?!"")(?:\\.|[^"\\])*"|'(?!'')[^']*'|(?:\"{3}|'{3}|#).*""")
"""What on one line is text or a comment, and opens and closes no list."""


def toml_lines(text: str) -> Iterator[tuple[str, Literal["head", "rest", "other"]]]:
    """Each line with its break: the head of a table, the rest of a value that began on an earlier line, or another."""
    open_lists, quote = 0, ""
    for line in text.splitlines(keepends=True):
        if open_lists or quote:
            yield line, "rest"
        elif _HEAD.match(line):
            yield line, "head"
            continue
        else:
            yield line, "other"
        rest = line
        if quote:
            _, closing, rest = line.partition(quote)
            if not closing:
                continue
            quote = ""
        bare = _CLOSED_TEXT.sub("", rest)
        open_lists = max(0, open_lists + sum(map(bare.count, "[{")) - sum(map(bare.count, "]}")))
        quote = _left_open(rest)


def _left_open(line: str) -> str:
    """The quotes of a text that goes on on the next line."""
    last = ""
    for match in _CLOSED_TEXT.finditer(line):
        last = match[0][:3] if match[0][:3] in ('"""', "'''") else ""
        if last and len(match[0]) >= 2 * len(last) and match[0].endswith(last):
            last = ""
    return last


def is_head_of(line: str, table: str, name: str) -> bool:
    """Whether a head is of the member of a table, or of a table in that."""
    return re.match(rf"\s*\[\s*{table}\s*\.\s*[\"']?{re.escape(name)}[\"']?\s*[\].]", line) is not None


def with_toml_member(text: str, path: Sequence[str], name: str, value: Mapping[str, Any]) -> str:
    """The text with the member of the table set. `path`: of one name, that of the table. Raises Unfit."""
    import tomlkit

    (table,) = path
    document = _document(text)
    if (servers := document.get(table)) is None:
        servers = document[table] = tomlkit.table(is_super_table=True)
    item = tomlkit.inline_table() if isinstance(servers, tomlkit.items.InlineTable) else tomlkit.table()
    item.update({key: _item(part) for key, part in value.items()})
    if isinstance(item, tomlkit.items.Table):
        item.add(tomlkit.nl())
    servers[name] = item
    return _like(text, _with_comments(tomlkit.dumps(document), text, table, name))


def without_toml_members(text: str, path: Sequence[str], names: Sequence[str]) -> str:
    """The text without these. Raises Unfit."""
    import tomlkit

    (table,) = path
    for name in names:
        document = _document(text)
        servers = document.get(table, {})
        servers.pop(name, None)
        if table in document and not servers:
            del document[table]
        text = _like(text, _with_comments(tomlkit.dumps(document), text, table, name))
    return text


def _with_comments(after: str, before: str, table: str, name: str) -> str:
    """With the comments that stood between the member and the next table: they may speak of that one."""
    comments, following = _what_follows(before.removeprefix(BOM), table, name)
    if "#" not in comments or not after.endswith(following):
        return after
    if (head := after.removesuffix(following)).rstrip().endswith(comments.strip()):
        return after
    if comments[:1] in "\r\n":  # with a blank line of its own
        head = head.rstrip("\r\n") + "\n"
    return (head + comments if head.strip() else comments.lstrip("\r\n")) + following


def _what_follows(text: str, table: str, name: str) -> tuple[str, str]:
    """Blank lines and comments at the end of a member, and all behind them; nothing if it is no table of its own."""
    rows = list(toml_lines(text))
    heads = [at for at, (_, kind) in enumerate(rows) if kind == "head"]
    if not (own := [at for at in heads if is_head_of(rows[at][0], table, name)]):
        return "", ""
    end = start = next((at for at in heads if at > own[-1]), len(rows))
    while rows[start - 1][1] == "other" and rows[start - 1][0].lstrip()[:1] in ("", "#"):
        start -= 1
    return "".join(line for line, _ in rows[start:end]), "".join(line for line, _ in rows[end:])


def _document(text: str) -> Any:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text.removeprefix(BOM))
    except TOMLKitError as exc:
        raise Unfit("it is no TOML") from exc


def _item(value: Any) -> Any:
    import tomlkit

    if not isinstance(value, Mapping):
        return value
    inline = tomlkit.inline_table()
    inline.update(value)
    return inline


def _like(before: str, after: str) -> str:
    """With the line breaks and the mark at the begin that the text had."""
    if "\r\n" in before and not re.search(r"(?<!\r)\n", before):
        after = re.sub(r"(?<!\r)\n", "\r\n", after)
    if after.endswith("\n\n") and not before.endswith("\n\n"):
        after = after.rstrip("\r\n") + ("\r\n" if after.endswith("\r\n") else "\n")
    return BOM + after if before.startswith(BOM) else after
