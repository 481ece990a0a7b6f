"""A host's config as text: its servers read, set and removed, and all else left as it was written."""

import difflib
import json
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
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


_MASK = re.compile(r"\$\{[^}]*\}|\d{7,}")
"""What stands for a secret, and long numbers: one may be an account's, whatever its name."""


def difference(before: HostConfig, after: HostConfig, name: str | None) -> list[str]:
    """The lines of a unified difference of the servers, since nothing else is ever changed; empty if there is none.

    `name`: of our own entry, which is shown whole where it is written; of another one what the graph would keep of it.
    """
    is_written = name is not None and after.servers.get(name) != before.servers.get(name)
    one, other = list(_show_servers(before)), list(_show_servers(after, name if is_written else None))
    return [line.rstrip() for line in difflib.unified_diff(one, other, str(before.path), str(after.path), n=2)]


def _show_servers(config: HostConfig, whole: str | None = None) -> Iterator[str]:
    """`whole`: the server, of those for all folders, of which nothing is masked."""
    document = config._document()
    for folder, settings in {"": document, **fields_of(document.get(config.host.folders))}.items():
        for key, entry in fields_of(fields_of(settings).get(config.host.table)).items():
            is_whole = not folder and key == whole
            try:
                visible = entry if is_whole else references_only(fields_of(entry))
            except ValueError:  # a URL that cannot be read
                visible = STRUCK_TEXT
            text = f"{json.dumps(key)}: {json.dumps(visible, indent=2, ensure_ascii=False, default=str)}"
            yield from f"{folder} {text if is_whole else _MASK.sub(STRUCK_TEXT, text)}".lstrip().splitlines()


def check_is_ours(config: HostConfig, name: str) -> None:
    """Raises SourceError if the config has a server under the gateway's name that is no gateway of ours."""
    if (entry := config.servers.get(name)) is None or is_gateway(entry) or reaches_gateway(config.host, entry):
        return
    reason = f"has a server named {name!r} that is no gateway of ours: --name gives the gateway another name"
    raise SourceError(str(config.path), reason)
