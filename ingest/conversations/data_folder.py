"""A folder of data: its catalogue, what `dataset.json` says of it, and its files of a JSON object a line."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest.manifest import Manifest
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord
from waygraph.ingest.sources.formats.tools_list import tool_records
from waygraph.ingest.sources.read import Listing, Reading, list_path, read_listing
from waygraph.registry.model.changes import AgentEntry, Rejected
from waygraph.registry.model.errors import InvalidDataset, nearest
from waygraph.registry.model.identity import tool_id
from waygraph.registry.model.settings import Settings

AGENTS, ABOUT = "agents.jsonl", "dataset.json"
_OF_AGENT = ("id", "name", "description", "kind", "tags", "tools")
_OF_DATASET = ("name", "origin", "license", "checksum", "catalog")
_MISSPELT = 0.75


@dataclass(frozen=True, slots=True)
class CatalogueNames:
    """The catalogue's agents by the dataset's own keys and by their ids, and its tools by key and name."""

    agents: Mapping[str, str]
    tools: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, catalogue: Manifest) -> "CatalogueNames":
        """Raises InvalidDataset for a catalogue that could not be read whole: its tools would be missed silently."""
        for fault in catalogue.rejected[:1]:
            raise InvalidDataset(fault.where, fault.reason)
        return cls(
            {entry.agent.id: entry.agent.id for entry in catalogue.entries}
            | {entry.key: entry.agent.id for entry in catalogue.entries},
            frozenset(tool.id for entry in catalogue.entries for tool in entry.tools),
        )

    def tool(self, agent: str, name: str, where: str) -> str:
        """The id of a tool by its agent's key and its name. Raises InvalidDataset for one that is not there."""
        full_id = tool_id(self.agents.get(agent, ""), name)
        if full_id in self.tools:
            return full_id
        close = nearest(full_id if agent in self.agents else f"{agent}/{name}", self.tools)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise InvalidDataset(where, f"tool {name!r} of agent {agent!r} is not in the catalogue{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolder:
    """`checksum`: SHA-256 of the files of its catalogue and of the one that it was read for."""

    name: str
    origin: str
    license: str
    checksum: str
    catalogue: Manifest


def read_data_folder(path: Path, settings: Settings, file: str) -> DataFolder:
    """A folder that is read for its `file`, which the checksum covers.

    Raises InvalidDataset, with file and line, and SourceError for a catalogue that cannot be read.
    """
    about = _about(path / ABOUT)
    catalogue, files = _agents(path, about, settings)
    actual = checksum([*files, path / file])
    stated_checksum = (about.get("checksum") or actual).removeprefix("sha256:")
    if stated_checksum not in (actual, checksum_of_bytes([*files, path / file])):
        raise InvalidDataset(str(path / ABOUT), f"checksum is {stated_checksum}, the files have {actual}")
    return DataFolder(
        name=about.get("name") or path.name,
        origin=about.get("origin") or "",
        license=about.get("license") or "",
        checksum=actual,
        catalogue=catalogue,
    )


def read_catalogue(source: str, settings: Settings) -> Manifest:
    """The agents of a dataset's folder, or of any files that `waygraph ingest` reads; no server is asked.

    Raises InvalidDataset, SourceError.
    """
    folder = Path(source).expanduser()
    if (folder / AGENTS).is_file() or (folder / ABOUT).is_file():
        catalogue, _ = _agents(folder, _about(folder / ABOUT), settings)
        return catalogue
    return _join_manifests(source, read_listing(list_path(source), Reading(settings=settings)))


def _agents(path: Path, about: Mapping[str, str], settings: Settings) -> tuple[Manifest, list[Path]]:
    """The catalogue, and the files that it is in."""
    catalog = about.get("catalog")
    if not catalog:
        return _catalogue(path / AGENTS, settings), [path / AGENTS]
    place = path / catalog
    listing = list_path(str(place))
    manifests = read_listing(listing, Reading(settings=settings))
    return _join_manifests(str(place), manifests), _files(place, listing)


def _join_manifests(source: str, manifests: Sequence[Manifest]) -> Manifest:
    entries = manifests[0].entries if len(manifests) == 1 else tuple(_of_export(manifests))
    rejections = tuple(each for manifest in manifests for each in manifest.rejected)
    return Manifest(source=source, entries=entries, rejected=rejections)


def _files(place: Path, listing: Listing) -> list[Path]:
    """All of a folder's, also those that are no sources; else those that are read."""
    if place.is_dir():
        return sorted(file for file in place.rglob("*") if file.is_file())
    return [Path(name) for name, _ in listing.files]


def _of_export(manifests: Iterable[Manifest]) -> Iterator[AgentEntry]:
    """Each agent once, whichever sources claim it. By a key that two of them give to different agents, which one source
    may not do, neither is known: their ids stand for it.
    """
    entries: dict[str, AgentEntry] = {}
    for entry in chain.from_iterable(manifest.entries for manifest in manifests):
        entries.setdefault(entry.agent.id, entry)
    borne = Counter(entry.key for entry in entries.values())
    return (entry if borne[entry.key] == 1 else replace(entry, key=entry.agent.id) for entry in entries.values())


def _catalogue(path: Path, settings: Settings) -> Manifest:
    entries: dict[str, Any] = {}
    cut: list[Rejected] = []
    for where, record in lines(path):
        refuse_misspelt(record, _OF_AGENT, where)
        intake = Intake(where, settings)
        intake.take(_agent(record, intake))
        for fault in intake.rejected[:1]:
            raise InvalidDataset(fault.where, fault.reason)
        cut += intake.cut
        for entry in intake.entries:
            if entries.setdefault(entry.agent.id, entry) is not entry:
                raise InvalidDataset(where, f"a second agent {entry.key!r}")
    return Manifest(source=str(path), entries=tuple(entries.values()), cut=tuple(cut))


def _agent(record: Mapping[str, Any], intake: Intake) -> AgentRecord:
    return AgentRecord(
        pointer="",
        key=record.get("id"),
        name=record.get("name") or "",
        description=record.get("description") or "",
        kind=record.get("kind") or "custom",
        tags=record.get("tags") or (),
        tools=_distinct(tool_records(record.get("tools") or [], "/tools", intake, own=True), intake),
    )


def _distinct(records: Iterable[ToolRecord], intake: Intake) -> list[ToolRecord]:
    """The first of each name: public data sets have some twice."""
    first: dict[object, ToolRecord] = {}
    for record in records:
        name = record.name if isinstance(record.name, str) else id(record)
        if first.setdefault(name, record) is not record:
            intake.note_cut(record.pointer, f"a second tool {record.name!r} was left out")
    return list(first.values())


def _about(path: Path) -> Mapping[str, str]:
    if not path.is_file():
        return {}
    try:
        about = _object(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error
    refuse_misspelt(about, _OF_DATASET, str(path))
    for name in _OF_DATASET:
        if not isinstance(about.get(name) or "", str):
            raise InvalidDataset(str(path), f"{name}: expected a text, found {type(about[name]).__name__}")
    return about


def lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Place (`file:line`) and object of each line that is not blank. Raises InvalidDataset."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):  # JSON may hold what Unicode counts as an end of line
        if line.strip():
            yield f"{path}:{number}", _object(line, f"{path}:{number}")


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidDataset(where, f"is not JSON: {error}") from error
    if not isinstance(record, Mapping):
        raise InvalidDataset(where, f"expected an object, found {type(record).__name__}")
    return record


def refuse_misspelt(record: Mapping[str, Any], fields: Sequence[str], where: str) -> None:
    """What else a line holds is its author's own; what is nearly a field of ours would be missed in silence."""
    for name in record:
        if name not in fields and (near := nearest(name, fields, least=_MISSPELT)):
            raise InvalidDataset(where, f"unknown field {name!r}; did you mean {near[0]!r}?")


def id_of(record: Mapping[str, Any], what: str, where: str) -> str:
    """Raises InvalidDataset."""
    if not isinstance(record.get("id"), str | int) or isinstance(record["id"], bool) or record["id"] == "":
        raise InvalidDataset(where, f"a {what} needs an id")
    return str(record["id"])


def name_in(record: Mapping[str, Any], field: str, where: str) -> str:
    """Empty if there is none. Raises InvalidDataset."""
    if not isinstance(record.get(field) or "", str):
        raise InvalidDataset(where, f"{field}: expected a name")
    return str(record.get(field) or "")


def checksum(paths: Iterable[Path]) -> str:
    """SHA-256 over the names and bytes of files, in the order given."""
    total = sha256()
    for path in paths:
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def checksum_of_bytes(paths: Iterable[Path]) -> str:
    """SHA-256 as `cat FILE… | sha256sum` prints it: what others state of their files."""
    total = sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()
