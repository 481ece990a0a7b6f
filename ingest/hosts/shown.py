"""What of a config may be shown: its names, and nothing that anybody else wrote there as a value.

A config holds keys of servers and of programs, in values and in comments. So a difference shows every value and comment
but those of our own entry as `***`.
"""

import difflib
import re
from collections.abc import Iterator

from waygraph.ingest.hosts import json_text, toml_text
from waygraph.ingest.hosts.config import HostConfig
from waygraph.ingest.striking import STRUCK

_STRING_OR_COMMENT = re.compile(r'(?s)"(?:\\.|[^"\\])*+(?:"|\Z)(\s*:)?|//[^\r\n]*|/\*.*?(?:\*/|\Z)')
_NUMBER = re.compile(r"(?<![\w.\"])-?\d[\d.eE+-]*")
_TOML_NAME = re.compile(r"""(\s*(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*\s*=)""")


def difference(before: HostConfig, after: HostConfig, name: str) -> list[str]:
    """The lines of a unified difference; empty if there is none. `name`: of our own entry, which is shown whole
    as it will be."""
    if before.text == after.text:
        return []
    lines = difflib.unified_diff(
        _masked(before, "").splitlines(),
        _masked(after, name).splitlines(),
        str(before.path),
        str(after.path),
        "",
        "",
        2,
    )
    return [line.rstrip() for line in lines]


def _masked(config: HostConfig, name: str) -> str:
    text = config.text or ""
    return "".join(_toml(text, config.host.table, name) if config.host.syntax == "toml" else _json(config, text, name))


def _json(config: HostConfig, text: str, name: str) -> Iterator[str]:
    found = json_text.members(text, [config.host.table]) if text.strip("\ufeff \t\r\n") else None
    at = 0
    for member in found or ():
        if member.name == name:
            yield _hidden(text[at : member.start])
            yield text[member.start : member.end]
            at = member.end
    yield _hidden(text[at:])


def _hidden(text: str) -> str:
    """Names stay; strings, comments and numbers do not."""
    kept, at = "", 0
    for found in _STRING_OR_COMMENT.finditer(text):
        kept += _NUMBER.sub(STRUCK, text[at : found.start()]) + _struck(found)
        at = found.end()
    return kept + _NUMBER.sub(STRUCK, text[at:])


def _struck(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("//"):
        return f"// {STRUCK}"
    if text.startswith("/*"):
        return f"/* {STRUCK} */"
    return text if found[1] is not None else f'"{STRUCK}"'


def _toml(text: str, table: str, name: str) -> Iterator[str]:
    """A table's head and the names of its values stay. What follows on further lines is a value, too."""
    inside = False
    for line, kind in toml_text.lines(text):
        if kind == "head":
            inside = toml_text.is_head_of(line, table, name)
            yield f"{toml_text.bare_head(line)}\n"
        elif (inside and line.lstrip()[:1] != "#") or not line.strip():
            yield line
        else:
            named = _TOML_NAME.match(line) if kind == "other" else None
            yield f"{named[1] if named else ''} {STRUCK}\n"
