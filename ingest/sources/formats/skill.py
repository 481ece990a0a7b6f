"""Agent Skills: a folder with a SKILL.md is an agent, each of its scripts a tool. Packed by `skill_folder`.

What a skill is found by: its description, which is written to say when the skill is of use, and after it the first
paragraphs of its text, which add words for word search; a model reads the description first.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from waygraph.ingest.manifest.fields import REPEATED, fields_of, items_of, scalar_of, text_of
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord
from waygraph.ingest.sources.formats.front_matter import read_front_matter
from waygraph.ingest.sources.skill_folder import SCRIPTS
from waygraph.registry.model.errors import SourceError

# What a script says of itself at its beginning: its docstring or its first comment. It is read, never run.


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


def describe_script(head: str) -> str:
    """The docstring, else the comment that comes first, at most MAX_CHARS; empty if there is none."""
    text = _METADATA.sub("", head.removeprefix("\ufeff").replace("\r\n", "\n"))
    comments: list[str] = []
    while text:
        line, _, rest = text.partition("\n")
        if match := _DOCSTRING.match(text):
            return _tidy(match[2])
        if match := next(filter(None, (block.match(text.lstrip(" \t")) for block in _BLOCKS)), None):
            return _tidy("\n".join(comments)) or _tidy(match[1])
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
    words = "\n".join(line for line in plain if re.search(r"\w", line))
    return words if len(words) <= MAX_CHARS else words[:MAX_CHARS].rpartition(" ")[0] or words[:MAX_CHARS]


SHAPE = "a folder with SKILL.md (Agent Skills), or many of them"
MAX_OPENING_CHARS = 500
MAX_DESCRIPTION_CHARS = 1024
"""What the specification allows; a longer one is taken, with a remark."""
_NAME = re.compile(r"(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCED_CODE = re.compile(r"(?ms)^(```|~~~).*?(?:^\1|\Z)")
_REMARK = re.compile(r"(?s)<!--.*?(?:-->|\Z)")
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)")
_ALLOWED_TOOL = re.compile(r"[^\s,()]+(?:\([^)\n]*\))?")


def fits(document: Any) -> bool:
    return (
        isinstance(document, Mapping)
        and {"skill", "body", "folder", "scripts"} <= document.keys()
        and isinstance(document["scripts"], list)
    )


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    folder = text_of(document["folder"])
    try:
        if not isinstance(text := document["skill"], str):
            raise SourceError(where, "has no front matter: a SKILL.md begins with `---`, its fields in YAML, and `---`")
        front = read_front_matter(text, where, intake.note_cut, lambda place: intake.note_cut(place, REPEATED))
    except SourceError as error:
        intake.reject_agent(error.pointer, error.reason, key=folder)
        intake.partial = True  # it may be held under a name of its own, which cannot be read
        return
    name = _skill_name(front, folder, intake)
    description = front.get("description")
    opening = _opening(text_of(document["body"]))
    if isinstance(description or "", str):
        description = "\n\n".join(filter(None, (_check_description(text_of(description), intake), opening)))
    yield AgentRecord(
        pointer="",
        key=name,
        description=description,
        kind="skill",
        version=scalar_of(fields_of(front.get("metadata")).get("version")) or scalar_of(front.get("version")),
        transport=_transport(front, document, folder),
        tools=list(_tools(document["scripts"], intake)),
    )


def _skill_name(front: Mapping[str, Any], folder: str, intake: Intake) -> str:
    """The skill's name, with a remark on what the specification does not allow."""
    if not (name := text_of(front.get("name"))):
        intake.note_cut("/name", "the skill has no name; that of its folder is taken")
        return folder
    if not _NAME.fullmatch(name):
        intake.note_cut("/name", "the name of a skill is at most 64 of a-z, 0-9 and single hyphens; taken as it is")
    elif folder and name != folder:
        intake.note_cut("/name", f"the skill is called {name!r}, its folder {folder[:64]!r}; they should be equal")
    return name


def _check_description(description: str, intake: Intake) -> str:
    if not description:
        intake.note_cut("/description", "the skill has no description; it is found by the beginning of its text")
    if len(description) > MAX_DESCRIPTION_CHARS:
        intake.note_cut("/description", f"longer than the {MAX_DESCRIPTION_CHARS} characters allowed; taken whole")
    return description


def _opening(body: str) -> str:
    """The first paragraphs, as plain text and whole: no headings, code, tables, lists, nor what leads to one."""
    text = _LINK.sub(r"\1", _REMARK.sub("", _FENCED_CODE.sub("", body.replace("\r\n", "\n"))))
    paragraphs: list[str] = []
    room = MAX_OPENING_CHARS
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.strip().split("\n")
        plain = " ".join(" ".join(line for line in lines if not line.startswith("#")).split())
        if not plain or plain.endswith((":", "：")) or plain.startswith(("|", "- ", "* ", "+ ", "1. ", "<")):
            continue
        if len(plain) > room:
            paragraphs += [] if paragraphs else [_sentences(plain, room)]
            break
        paragraphs.append(plain)
        room -= len(plain)
    return "\n\n".join(paragraphs)


def _sentences(text: str, room: int) -> str:
    """Whole sentences, if one finds room."""
    end = max(text.rfind(mark, 0, room) for mark in (". ", "! ", "? ", "。"))
    return text[: end + 1] if end > 0 else text[:room].rpartition(" ")[0] or text[:room]


def _transport(front: Mapping[str, Any], document: Mapping[str, Any], folder: str) -> dict[str, object]:
    """What a host needs to know before it uses the skill; the digest tells one that was changed."""
    tools = front.get("allowed-tools")
    fields = {
        "folder": folder,
        "sha256": text_of(document.get("sha256")),
        "license": text_of(front.get("license")),
        "compatibility": text_of(front.get("compatibility")),
        "allowed-tools": _ALLOWED_TOOL.findall(tools)
        if isinstance(tools, str)
        else [text_of(item) for item in items_of(tools) if text_of(item)],
        "metadata": {name: scalar_of(value) for name, value in fields_of(front.get("metadata")).items()},
    }
    return {name: value for name, value in fields.items() if value}


def _tools(scripts: list[Any], intake: Intake) -> Iterator[ToolRecord]:
    for number, entry in enumerate(scripts):
        script = fields_of(entry)
        path = text_of(script.get("path"))
        pointer = f"/{path}" if path else f"/{SCRIPTS}/{number}"
        if not path or script.get("left_out"):
            intake.reject(pointer, text_of(script.get("left_out")) or "expected a script with a path")
            continue
        identity = {"path": path, "sha256": text_of(script.get("sha256"))}
        yield ToolRecord(
            pointer=pointer,
            name=path.removeprefix(f"{SCRIPTS}/").replace("/", "."),
            description=describe_script(text_of(script.get("head"))),
            annotations={"script": {name: value for name, value in identity.items() if value}},
        )
