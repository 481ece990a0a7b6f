"""TOML changed in place: comments, order and line breaks of what is not changed stay."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from waygraph.ingest.hosts.edit_json import Unfit
from waygraph.registry.model.bounded_text import BOM

_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_HEAD = re.compile(rf"(\s*\[{{1,2}}\s*{_PART}(?:\s*\.\s*{_PART})*\s*\]{{1,2}})\s*(?:#.*)?$")
_CLOSED_TEXT = re.compile(r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?!"")(?:\\.|[^"\\])*"|'(?!'')[^']*'|(?:\"{3}|'{3}|#).*""")
"""What on one line is text or a comment, and opens and closes no list."""


def lines(text: str) -> Iterator[tuple[str, Literal["head", "rest", "other"]]]:
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


def bare_head(line: str) -> str:
    """A head without the comment behind it."""
    match = _HEAD.match(line)
    return match[1] if match else ""


def is_head_of(line: str, table: str, name: str) -> bool:
    """Whether a head is of the member of a table, or of a table in that."""
    return re.match(rf"\s*\[\s*{table}\s*\.\s*[\"']?{re.escape(name)}[\"']?\s*[\].]", line) is not None


def with_member(text: str, path: Sequence[str], name: str, value: Mapping[str, Any]) -> str:
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


def without_members(text: str, path: Sequence[str], names: Sequence[str]) -> str:
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
    rows = list(lines(text))
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
