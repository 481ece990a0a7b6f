"""TOML changed in place: comments, order and line breaks of what is not changed stay."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

BOM = "\ufeff"


class Unfit(Exception):
    """Why a text cannot be changed; it holds nothing of the text."""


def parsed(text: str) -> dict[str, Any]:
    """Raises ValueError, RecursionError."""
    return tomllib.loads(text.removeprefix(BOM))


def with_member(text: str, table: str, name: str, value: Mapping[str, Any]) -> str:
    """The text with the member of the table set. Raises Unfit."""
    import tomlkit

    document = _document(text)
    servers = document.get(table)
    if servers is None:
        servers = document[table] = tomlkit.table(is_super_table=True)
    item = tomlkit.inline_table() if isinstance(servers, tomlkit.items.InlineTable) else tomlkit.table()
    item.update({key: _item(part) for key, part in value.items()})
    if isinstance(item, tomlkit.items.Table):
        item.add(tomlkit.nl())
    servers[name] = item
    return _like(text, tomlkit.dumps(document))


def without_members(text: str, table: str, names: Sequence[str]) -> str:
    """The text without these. Raises Unfit."""
    import tomlkit

    document = _document(text)
    servers = document.get(table, {})
    for name in names:
        if name in servers:
            del servers[name]
    if servers is not document and table in document and not servers:
        del document[table]
    return _like(text, tomlkit.dumps(document))


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
