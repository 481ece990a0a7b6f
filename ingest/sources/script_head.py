"""What a script says of itself at its beginning: its docstring or its first comment. It is read, never run."""

import re

MAX_CHARS = 1_000

_DOCSTRING = re.compile(r"(?s)[rRuU]?(\"\"\"|''')(.*?)(?:\1|\Z)")
_BLOCKS = (
    re.compile(r"(?s)/\*+(.*?)(?:\*/|\Z)"),
    re.compile(r"(?s)<#(.*?)(?:#>|\Z)"),
    re.compile(r"(?s)--\[\[(.*?)(?:\]\]|\Z)"),
    re.compile(r"(?s)=begin\b(.*?)(?:^=end\b|\Z)", re.MULTILINE),
)
_MARK = re.compile(r"^[ \t]*(?:#+|//+!?|--+|;+|%+|\*+|@?[Rr][Ee][Mm]\b|::)(?:[ \t]|$)?")
_LINE_COMMENT = re.compile(r"[ \t]*(?:#|//|--|;|%|@?[Rr][Ee][Mm]\b|::)")
_METADATA = re.compile(r"(?ms)^# /// \w+$.*?^# ///$\n?")  # inline metadata of Python scripts
_SETTING = re.compile(
    r"(?i)copyright|\(c\)|spdx-|licen[sc]ed? under|-\*-|\bvim?:|\b(?:eslint|shellcheck|pylint|ruff|mypy|prettier)\b"
    r"|type: ignore|noqa|@ts-|[\"']use strict[\"']|<\?php|@echo off"
)


def described(head: str) -> str:
    """The docstring, else the comment that comes first, at most MAX_CHARS; empty if there is none."""
    text = _METADATA.sub("", head.removeprefix("\ufeff").replace("\r\n", "\n"))
    comments: list[str] = []
    while text:
        line, _, rest = text.partition("\n")
        if found := _DOCSTRING.match(text):
            return _tidy(found[2])
        if found := next(filter(None, (block.match(text.lstrip(" \t")) for block in _BLOCKS)), None):
            return _tidy("\n".join(comments)) or _tidy(found[1])
        if line.startswith("#!") or not line.strip() or _LINE_COMMENT.match(line) or _SETTING.search(line):
            comments += [] if line.startswith("#!") else [line]
            text = rest
        else:
            break
    return _tidy("\n".join(comments))


def _tidy(text: str) -> str:
    """Without the marks of comments, rulers, licences and settings of tools."""
    lines = [line for line in text.split("\n") if not _SETTING.search(line)]
    plain = [_MARK.sub("", line, count=1).strip() for line in lines]
    told = "\n".join(line for line in plain if re.search(r"\w", line))
    return told if len(told) <= MAX_CHARS else told[:MAX_CHARS].rpartition(" ")[0] or told[:MAX_CHARS]
