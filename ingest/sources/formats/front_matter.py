"""The front matter of a SKILL.md: YAML, or what its author took for it.

To most authors it is a few lines `name: text`. Where YAML reads another thing than stands there, or nothing at all, the
text of the field is taken as it was written, with a remark.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from waygraph.ingest.manifest.fields import fields_of, pointer
from waygraph.ingest.manifest.records import shape_of
from waygraph.ingest.sources.parse import parse_yaml
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


def read_front_matter(text: str, where: str, remark: Remark, note_repeated: Callable[[str], None]) -> Mapping[str, Any]:
    """Raises SourceError if there is not a single field in it."""
    fields = dict(_fields(text))
    if (front := _whole(text, where, note_repeated, must_be_yaml=not fields)) is None:
        front = {name: _value(name, field, where, remark) for name, field in fields.items() if name in _KNOWN_FIELDS}
    both = [name for name in _TEXTS if name in front and name in fields]
    return {**front, **{name: _text(name, front[name], fields[name], remark, text) for name in both}}


def _whole(
    text: str, where: str, note_repeated: Callable[[str], None], *, must_be_yaml: bool
) -> Mapping[str, Any] | None:
    """None if it is no YAML. Raises SourceError if it must be."""
    try:
        if isinstance(front := parse_yaml(where, text, note_repeated), Mapping):
            return front
        reason = f"its front matter is {shape_of(front)}: expected fields such as name and description"
        raise SourceError(where, reason)
    except SourceError:
        if must_be_yaml:
            raise
    return None


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
