"""A host's config as text: its servers read, set and removed, and all else left as it was written."""

import difflib
import json
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from waygraph.ingest.hosts import edit
from waygraph.ingest.hosts.hosts import Host, reaches_gateway
from waygraph.ingest.manifest.fields import fields_of, repeated_names
from waygraph.ingest.manifest.own_gateway import is_gateway
from waygraph.ingest.manifest.redaction import STRUCK_TEXT
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.sources.formats.switches import Switches, switches_of
from waygraph.ingest.sources.parse import json_document
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.foreign_text import UnboundedText, toml_document

_BLANK = "\ufeff \t\r\n"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
MAX_BYTES = 16 * 1024 * 1024
"""Claude Code keeps more than its servers in its file; a config of more is none."""


@dataclass(frozen=True, slots=True)
class HostConfig:
    """The text of a config, and where it is kept. `text` None: there is no such file."""

    host: Host
    path: Path
    text: str | None = field(repr=False)

    @property
    def servers(self) -> dict[str, Any]:
        """As the file has them, by name. Raises SourceError."""
        return self.servers_of("")

    def servers_of(self, folder: str) -> dict[str, Any]:
        """Those that a user's file keeps for this folder alone; empty: for all. Raises SourceError."""
        table: Any = self._document()
        for name in self._table(folder):
            if not isinstance(table := table.get(name, {}), dict):
                raise self._fault(f"{name} is no object")
        return dict(table)

    def switches(self, folder: str = "") -> Switches:
        """What the file says of its servers beside their entries. Raises SourceError."""
        document = self._document()
        return switches_of(fields_of(fields_of(document.get(self.host.folders)).get(folder)) if folder else document)

    def repeated_names(self, folder: str = "") -> list[str]:
        """Names that more than one of these servers has; of them `servers_of` has the last one. Raises SourceError."""
        if not self.servers_of(folder) or self.host.syntax == "toml":  # a text that has one twice is not TOML
            return []
        return repeated_names(member.name for member in edit.members(self.text or "", self._table(folder)) or ())

    @property
    def others(self) -> dict[str, Any]:
        """What stands beside the servers. Raises SourceError."""
        return {name: value for name, value in self._document().items() if name != self.host.table}

    def with_servers(self, entries: Mapping[str, Any], folder: str = "") -> "HostConfig":
        """Raises SourceError if the text cannot be changed to just that."""
        table = self._table(folder)
        return self._change(
            table,
            {**self.servers_of(folder), **entries},
            lambda text, syntax: reduce(lambda text, item: syntax.put(text, table, *item), entries.items(), text),
        )

    def without_servers(self, names: Sequence[str], folder: str = "") -> "HostConfig":
        """Raises SourceError if the text cannot be changed to just that."""
        table, servers = self._table(folder), self.servers_of(folder)
        others = {name: entry for name, entry in servers.items() if name not in names}
        if others == servers:
            return self
        return self._change(table, others, lambda text, syntax: syntax.remove(text, table, names))

    def _table(self, folder: str) -> Sequence[str]:
        """The names that lead to it."""
        return (self.host.folders, folder, self.host.table) if folder else (self.host.table,)

    def _document(self) -> dict[str, Any]:
        if self.text is None or not self.text.strip(_BLANK):
            return {}
        try:
            document = _SYNTAXES[self.host.syntax].parse(self.text)
        except RecursionError:
            raise self._fault("is nested too deeply") from None
        except UnboundedText as exc:
            raise self._fault(str(exc)) from None
        except ValueError as exc:
            # Line and column, as far as they are told; never what stands there.
            match = re.search(r"\(?(?:at )?line (\d+),? col(?:umn)? (\d+)", str(exc))
            place = f" (line {match[1]}, column {match[2]})" if match else ""
            raise self._fault(f"is not {self.host.syntax.upper()}{place}") from None
        if not isinstance(document, dict):
            raise self._fault("is no object")
        return document

    def _change(
        self, table: Sequence[str], servers: Mapping[str, Any], change: "Callable[[str, Syntax], str]"
    ) -> "HostConfig":
        before, syntax = self._document(), _SYNTAXES[self.host.syntax]
        text = self.text if self.text and self.text.strip(_BLANK) else syntax.empty
        try:
            config = replace(self, text=change(text, syntax))
            after = config._document()
        except (edit.Unfit, SourceError, ValueError, RecursionError):
            after, config = {}, self
        sides = (_fill_table(each, table) for each in (after, _put(before, table, dict(servers))))
        if len({json.dumps(each, sort_keys=True, default=str) for each in sides}) > 1:
            raise self._fault("is written in a way that cannot be changed safely; it was left as it is")
        return config

    def _fault(self, reason: str) -> SourceError:
        return SourceError(str(self.path), reason)


@dataclass(frozen=True, slots=True)
class Syntax:
    """A file's own syntax. `put` and `remove` raise Unfit, ValueError; `parse` raises ValueError, RecursionError."""

    empty: str
    parse: Callable[[str], Any]
    put: Callable[[str, Sequence[str], str, Mapping[str, Any]], str]
    """Text, path of the table, name and entry to the new text."""
    remove: Callable[[str, Sequence[str], Sequence[str]], str]


_SYNTAXES: Mapping[str, Syntax] = {
    "json": Syntax("{}\n", json_document, edit.with_member, edit.without_members),
    "toml": Syntax("", toml_document, edit.with_toml_member, edit.without_toml_members),
}


def read_config(host: Host, path: Path) -> HostConfig:
    """Raises SourceError for a file that cannot be read, is too long, or is no text."""
    content = content_of(path)
    try:
        return HostConfig(host, path, None if content is None else content.decode())
    except UnicodeDecodeError as exc:
        raise SourceError(str(path), f"is not UTF-8 text (byte {exc.start})") from None


def content_of(path: Path) -> bytes | None:
    """None: there is no such file. Raises SourceError, also for what is no regular file: it may never end."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise SourceError(str(path), f"is {kind}, and a host's config is a file: name another one by --file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise SourceError(str(path), f"cannot be read: {exc.strerror}") from exc
    if len(content) > MAX_BYTES:
        raise SourceError(str(path), f"has more than {MAX_BYTES:,} bytes, which no host's config has")
    return content


def _put(document: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The document with this value at the path."""
    name, *rest = path
    return {**document, name: _put(document.get(name, {}), rest, value) if rest else value}


def _fill_table(document: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """A table without servers is as good as none, and so is what leads to nothing else."""
    name, *rest = path
    there = document.get(name)
    inner = _fill_table(there, rest) if rest and isinstance(there, Mapping) else there
    return {**document, name: inner} if inner else {key: value for key, value in document.items() if key != name}


_STRING_OR_COMMENT = re.compile(r'(?s)"(?:\\.|[^"\\])*+(?:"|\Z)(\s*:)?|//[^\r\n]*|/\*.*?(?:\*/|\Z)')
_NUMBER = re.compile(r"(?<![\w.\"])-?\d[\d.eE+-]*")
_MOST_DIGITS = 6
"""Of a number that is shown, such as a timeout in milliseconds."""
_TOML_NAME = re.compile(r"""(\s*(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*\s*=)""")
_TOML_STRINGS = re.compile(r"""\s*(?:"[^"\\]*"|\[\s*"[^"\\]*"(?:\s*,\s*"[^"\\]*")*\s*,?\s*\]|-?\d[\d.]*)\s*""")
_REFERENCE = re.compile(r"\$\{[^}]*\}")
type _Texts = Mapping[str, str]
"""The strings of a config that may be shown, each as it is shown."""


def difference(before: HostConfig, after: HostConfig, name: str) -> list[str]:
    """The lines of a unified difference; empty if there is none. `name`: of our own entry, which is shown whole
    as it will be.

    A config holds keys of servers and of programs. So of all else only names are shown, and the strings and numbers
    of servers that the graph would keep of them; other values and comments are `***`.
    """
    if before.text == after.text:
        return []
    texts = dict[str, str]()
    for entry in [*before.servers.values(), *after.servers.values()]:
        if isinstance(entry, Mapping):
            with suppress(ValueError):
                for text, clean in _string_pairs(entry, references_only(entry)):
                    visible = clean if clean == text else _REFERENCE.sub(STRUCK_TEXT, clean)
                    texts[text] = visible if texts.get(text, visible) == visible else STRUCK_TEXT
    sides = (_mask_config(before, "", texts).splitlines(), _mask_config(after, name, texts).splitlines())
    lines = difflib.unified_diff(*sides, str(before.path), str(after.path), n=2)
    return [line.rstrip() for line in lines]


def _string_pairs(value: object, clean: object) -> Iterator[tuple[str, str]]:
    """Each string or number with what stands in its place; nothing of lists that differ in length."""
    if isinstance(value, str) and isinstance(clean, str):
        yield value, clean
    elif isinstance(value, int | float):  # a long one may be an account's, whatever its name
        yield str(value), str(clean) if len(str(value)) <= _MOST_DIGITS else STRUCK_TEXT
    elif isinstance(value, Mapping) and isinstance(clean, Mapping) and value.keys() == clean.keys():
        for name, item in value.items():
            yield from _string_pairs(item, clean[name])
    elif isinstance(value, list) and isinstance(clean, list) and len(value) == len(clean):
        for item, clean_item in zip(value, clean, strict=True):
            yield from _string_pairs(item, clean_item)


def _mask_config(config: HostConfig, name: str, texts: _Texts) -> str:
    text = config.text or ""
    parts = _toml(text, config.host.table, name, texts) if config.host.syntax == "toml" else None
    return "".join(parts or _json(config, text, name, texts))


def _json(config: HostConfig, text: str, name: str, texts: _Texts) -> Iterator[str]:
    members = edit.members(text, [config.host.table]) if text.strip("\ufeff \t\r\n") else None
    at = 0
    for member in members or ():
        if member.name == name:
            yield _hide_values(text[at : member.start], texts)
            yield text[member.start : member.end]
            at = member.end
    yield _hide_values(text[at:], texts)


def _hide_values(text: str, texts: _Texts) -> str:
    """Names stay, and strings and numbers that may be shown; others, and comments, do not."""

    def strike_numbers(part: str) -> str:
        return _NUMBER.sub(lambda match: texts.get(match[0], STRUCK_TEXT), part)

    result, at = "", 0
    for match in _STRING_OR_COMMENT.finditer(text):
        result += strike_numbers(text[at : match.start()]) + _strike_value(match, texts)
        at = match.end()
    return result + strike_numbers(text[at:])


def _strike_value(match: re.Match[str], texts: _Texts) -> str:
    if (text := match[0]).startswith("//"):
        return f"// {STRUCK_TEXT}"
    if text.startswith("/*"):
        return f"/* {STRUCK_TEXT} */"
    if match[1] is not None:
        return text
    try:
        value = json.loads(text)
    except ValueError:  # TOML has escapes of its own, and a text may end within a string
        value = ""
    return json.dumps(texts.get(value, STRUCK_TEXT), ensure_ascii=False)


def _toml(text: str, table: str, name: str, texts: _Texts) -> Iterator[str]:
    """A table's head and the names of its values stay. What follows on further lines is a value, too."""
    inside = False
    for line, kind in edit.toml_lines(text):
        if kind == "head":
            inside = edit.is_head_of(line, table, name)
            yield f"{edit.bare_head(line)}\n"
        elif (inside and line.lstrip()[:1] != "#") or not line.strip():
            yield line
        else:
            match = _TOML_NAME.match(line) if kind == "other" else None
            values = line[match.end() :].rstrip("\r\n") if match else ""
            value = _hide_values(values, texts) if _TOML_STRINGS.fullmatch(values) else f" {STRUCK_TEXT}"
            yield f"{match[1] if match else ''}{value}\n"


def check_is_ours(config: HostConfig, name: str) -> None:
    """Raises SourceError if the config has a server under the gateway's name that is no gateway of ours."""
    if (entry := config.servers.get(name)) is None or is_gateway(entry) or reaches_gateway(config.host, entry):
        return
    reason = f"has a server named {name!r} that is no gateway of ours: --name gives the gateway another name"
    raise SourceError(str(config.path), reason)
