"""Agent Skills: a folder with a SKILL.md is an agent, each of its scripts a tool. Packed by `sources.parse`.

What a skill is found by: its description, which is written to say when the skill is of use, and after it the first
paragraphs of its text, which add words for word search; a model reads the description first.

The front matter of a SKILL.md: YAML, or what its author took for it.

To most authors it is a few lines `name: text`. Where YAML reads another thing than stands there, or nothing at all, the
text of the field is taken as it was written, with a remark.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from waygraph.ingest.manifest.fields import fields_of, items_of, lines_of, pointer, scalar_of, text_of
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, shape_of
from waygraph.ingest.sources.parse import (
    MAX_BYTES_OF_SKILL,
    MAX_FILES_OF_SKILL,
    SCRIPTS,
    SKILL_FILE,
    parse_yaml,
    suspicions_in,
)
from waygraph.registry.model.changes import OF_SERVER
from waygraph.registry.model.errors import SourceError

Remark = Callable[[str, str], None]
"""Told the pointer of a field and what is remarkable of it."""
_TEXTS = ("name", "description")
_KNOWN_FIELDS = frozenset((*_TEXTS, "license", "compatibility", "metadata", "version", "allowed-tools"))
_FIELD = re.compile(
    r"(?m)^(?:(?P<text>name|description)|(?P<plain>[A-Za-z_][\w.-]*)|\"(?P<double>[^\"\n]+)\"|'(?P<single>[^'\n]+)')"
    r"[ \t]*:(?(text)|(?=\s|$))"
)
_BLOCK = re.compile(r"([|>])[-+0-9]*[ \t]*(?:#.*)?")
_QUOTED_TEXT = re.compile(r"""(?s)"([^"]*)"|'((?:[^']|(?<=\w)'(?=\w))*)'""")
_ANCHOR = re.compile(r"&(\S+)\s")
_NO_COMMENT = re.compile(r"#(?!\s|$)")
_NO_YAML = object()
AS_WRITTEN = "is no text in YAML as it stands; taken as it was written: quote it"
_CUT_BY_COMMENT = "all behind ` #` is a comment in YAML, and is left out; quote the text if it belongs to it"


def read_front_matter(text: str, where: str, remark: Remark) -> Mapping[str, Any]:
    """Raises SourceError if there is not a single field in it."""
    fields = dict(_fields(text))
    try:
        front = parse_yaml(where, text)
        if not isinstance(front, Mapping):
            reason = f"its front matter is {shape_of(front)}: expected fields such as name and description"
            raise SourceError(where, reason)
    except SourceError:
        if not fields:
            raise
        front = {name: _value(name, field, where, remark) for name, field in fields.items() if name in _KNOWN_FIELDS}
    both = [name for name in _TEXTS if name in front and name in fields]
    return {**front, **{name: _text(name, front[name], fields[name], remark, text) for name in both}}


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Each field and what stands behind its colon, up to the next one."""
    text = textwrap.dedent(text)
    matches = list(_FIELD.finditer(text))
    for field, after in zip_longest(matches, matches[1:]):
        yield str(field[field.lastgroup or 0]), text[field.end() : after.start() if after else len(text)]


def _value(name: str, field: str, where: str, remark: Remark) -> object:
    """Of one field alone, where all of them together are no YAML."""
    try:
        return fields_of(parse_yaml(where, f"value: {field}"))["value"]
    except (SourceError, KeyError):
        if name in _TEXTS:
            return _NO_YAML
        remark(pointer(name), AS_WRITTEN)
        return _unfold(field)


def _text(name: str, value: object, field: str, remark: Remark, whole: str) -> object:
    """The value if YAML reads a text or nothing, and cuts none off; else the text of the field."""
    plain = _unfold(field.strip().partition("\n")[0] if name == "name" else field)
    anchor = _ANCHOR.match(plain)
    if (value is not None and not isinstance(value, str)) or (anchor and f"*{anchor[1]}" not in whole):
        remark(pointer(name), AS_WRITTEN)
        return plain
    cut = plain.removeprefix(value or "").lstrip() if plain.startswith(value or "") else ""
    if _NO_COMMENT.match(cut):
        remark(pointer(name), AS_WRITTEN)
        return plain
    if cut.startswith("#"):
        remark(pointer(name), _CUT_BY_COMMENT)
    return value


def _unfold(field: str) -> str:
    """Lines that go on are one line; a blank one ends it. Without the marks of a block, and quotes around the whole."""
    first, *others = field.strip().splitlines() or [""]
    block = _BLOCK.fullmatch(first)
    lines = [line.strip() for line in ([] if block else [first]) + others]
    if block and block[1] == "|":
        return "\n".join(lines).strip()
    paragraphs = "\n".join(lines).split("\n\n")
    text = "\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs).strip()
    match = _QUOTED_TEXT.fullmatch(text)
    return text if match is None else match[1] or match[2] or ""


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
_ALLOWED_TOOL = re.compile(r"([^\s,()]+)(?:\([^)\n]*\))?")
_CODE = re.compile(r"`([A-Za-z0-9][\w./:-]{1,199})(?:\([^`\n]*\))?`")
"""A name that is written as code, such as `search` or `search(query)`."""
_FULL_NAME = re.compile(r"(?<![\w./:-])[A-Za-z0-9][\w.-]*(?:/|:|__)[\w.:-]*\w")
"""One that names its server, too: a tool's id, its call name, `server:tool`."""
MAX_NAMES = 256


def fits(document: Any) -> bool:
    fields = fields_of(document)
    return {"skill", "body", "folder"} <= fields.keys() and isinstance(fields.get("scripts"), list)


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    folder = text_of(document["folder"])
    try:
        if not isinstance(text := document["skill"], str):
            raise SourceError(where, "has no front matter: a SKILL.md begins with `---`, its fields in YAML, and `---`")
        front = read_front_matter(text, where, intake.note_cut)
    except SourceError as error:
        intake.reject_agent(error.pointer, error.reason, key=folder)
        intake.partial = True  # it may be held under a name of its own, which cannot be read
        return
    for path, reason in fields_of(document.get("left_out")).items():
        intake.reject(f"/{path}" if path else "", text_of(reason))
    name = _skill_name(front, folder, intake)
    description = front.get("description")
    opening = _opening(text_of(document["body"]))
    if isinstance(description or "", str):
        description = text_of(description)
        if not description:
            intake.note_cut("/description", "the skill has no description; it is found by the beginning of its text")
        if len(description) > MAX_DESCRIPTION_CHARS:
            intake.note_cut("/description", f"longer than the {MAX_DESCRIPTION_CHARS} characters allowed; taken whole")
        description = "\n\n".join(filter(None, (description, opening)))
    yield AgentRecord(
        pointer="",
        key=name,
        description=description,
        kind="skill",
        version=scalar_of(fields_of(front.get("metadata")).get("version")) or scalar_of(front.get("version")),
        transport=_transport(front, document, folder),
        tools=list(_tools(document["scripts"], intake)),
        flags=(*suspicions_in(SKILL_FILE, text_of(document["body"])), *lines_of(document.get("flags"))),
    )


def read_listing(listing: object, server: AgentRecord, number: int, intake: Intake) -> Iterator[AgentRecord]:
    """A skill as a server lists it by the extension of SEP-2640, under a key that no other skill has."""
    skill, pointer = fields_of(listing), f"{server.pointer}/skills/{number}"
    front, uri, resources = fields_of(skill.get("frontmatter")), text_of(skill.get("uri")), skill.get("resources")
    folder, name = uri.removesuffix(SKILL_FILE), text_of(front.get("name"))
    if not (name and _NAME.fullmatch(name) and uri.endswith(f"/{name}/{SKILL_FILE}")):
        intake.reject(
            pointer, "its address does not end in the skill's name, which has at most 64 of a-z, 0-9 and hyphens"
        )
        return
    files = {
        text_of(file.get("uri")).removeprefix(folder): {
            "sha256": text_of(file.get("digest")).removeprefix("sha256:"),
            "size": file.get("size"),
        }
        for file in map(fields_of, items_of(resources))
    }
    sizes = [size if isinstance(size := file["size"], int) else 0 for file in files.values()]
    if SKILL_FILE not in files or len(files) > MAX_FILES_OF_SKILL or sum(sizes) > MAX_BYTES_OF_SKILL:
        intake.reject(pointer, f"the skill {name} has no digests of its files, or more of them than a skill may have")
        return
    description = text_of(front.get("description"))
    path = folder.partition("://")[2].strip("/")
    yield AgentRecord(
        pointer=pointer,
        key=f"{server.key}{OF_SERVER}{path}",
        name=name,
        description=description,
        kind="skill",
        version=scalar_of(fields_of(front.get("metadata")).get("version")) or scalar_of(front.get("version")),
        transport={
            "server": server.key,
            "uri": uri,
            "files": files,
            "frontmatter": _as_json(front),
            "names": names_of_tools(front, [description]),
        },
        tags=server.tags,
        visible_to=server.visible_to,
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
    """What a host needs to know before it uses the skill. By the digests each changed byte of a file shows."""
    texts = (text_of(front.get("description")), text_of(document["body"]))
    files = dict(fields_of(document.get("files")))
    fields = {
        "folder": folder,
        "files": files,
        "partial": document.get("partial") is True,
        "frontmatter": _as_json(front),
        "names": [name for name in names_of_tools(front, texts) if name not in files],
    }
    return {name: value for name, value in fields.items() if value}


def _as_json(front: Mapping[str, Any]) -> Mapping[str, Any]:
    """Empty for what cannot be written, such as a number of more digits than Python reads."""
    try:
        return fields_of(json.loads(json.dumps(front, allow_nan=False)))
    except (ValueError, TypeError, RecursionError):
        return {}


def names_of_tools(front: Mapping[str, Any], texts: Iterable[str]) -> list[str]:
    """Names that may be those of tools or servers: all that the skill allows, and what its texts name by a server or
    write as code.
    """
    tools = front.get("allowed-tools")
    lines = [tools] if isinstance(tools, str) else lines_of(tools)
    names = {name for line in lines for name in _ALLOWED_TOOL.findall(line)}
    for text in texts:
        names.update(_CODE.findall(text), _FULL_NAME.findall(text))
    return sorted(names)[:MAX_NAMES]


def _tools(scripts: list[Any], intake: Intake) -> Iterator[ToolRecord]:
    for number, entry in enumerate(scripts):
        script = fields_of(entry)
        path = text_of(script.get("path"))
        pointer = f"/{path}" if path else f"/{SCRIPTS}/{number}"
        if not path:
            intake.reject(pointer, "expected a script with a path")
            continue
        identity = {"path": path, "sha256": text_of(script.get("sha256"))}
        yield ToolRecord(
            pointer=pointer,
            name=path.removeprefix(f"{SCRIPTS}/").replace("/", "."),
            description=describe_script(text_of(script.get("head"))),
            annotations={"script": {name: value for name, value in identity.items() if value}},
        )
