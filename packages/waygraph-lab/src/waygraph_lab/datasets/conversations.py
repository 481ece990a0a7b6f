"""Conversations with tool calls, from files: a folder of data with its catalogue, and what was called after what.

A file holds a JSON object a line; `dataset.json` says what the folder is.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

from waygraph.ingest.manifest.records import AgentRecord, Intake, Manifest, ToolRecord
from waygraph.ingest.sources.formats.listings import tool_records
from waygraph.ingest.sources.read import Listing, Reading, list_path, read_listing
from waygraph.registry.model.changes import AgentEntry, Rejected
from waygraph.registry.model.errors import InvalidDataset, nearest
from waygraph.registry.model.identity import tool_id
from waygraph.registry.model.nouns import CallOutcome, Turn, TurnRole
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import Transition, count_transitions, epoch_seconds, is_tool
from waygraph.registry.storage.local_registry import LocalRegistry

AGENTS, ABOUT = "agents.jsonl", "dataset.json"
_OF_AGENT = ("id", "name", "description", "kind", "tags", "tools")
_OF_DATASET = ("name", "origin", "license", "checksum", "catalog", "registry")
_MISSPELT = 0.75


@dataclass(frozen=True, slots=True)
class CatalogueNames:
    """The catalogue's agents by the dataset's own keys and by their ids, and its tools by key and name."""

    agents: Mapping[str, str]
    tools: frozenset[str] = field(default=frozenset())
    partial: bool = False
    """Of a registry: what it does not route to now may have been there when it was called right."""

    @classmethod
    def of(cls, catalogue: Manifest) -> "CatalogueNames":
        """Raises InvalidDataset for a catalogue that could not be read whole: its tools would be missed silently."""
        for fault in catalogue.rejected[:1]:
            raise InvalidDataset(fault.where, fault.reason)
        return cls(
            {entry.agent.id: entry.agent.id for entry in catalogue.entries}
            | {entry.key: entry.agent.id for entry in catalogue.entries},
            frozenset(tool.id for entry in catalogue.entries for tool in entry.tools),
            catalogue.partial,
        )

    def tool(self, agent: str, name: str, where: str) -> str:
        """The id of a tool by its agent's key and its name. Raises InvalidDataset for one that is not there."""
        full_id = tool_id(self.agents.get(agent, ""), name)
        if full_id in self.tools:
            return full_id
        close = nearest(full_id if agent in self.agents else f"{agent}/{name}", self.tools)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise InvalidDataset(where, f"tool {name!r} of agent {agent!r} is not in the catalogue{hint}")

    def agent(self, name: str, where: str) -> str:
        """The id of an agent that is called as a whole, by its key. Raises InvalidDataset for one that is not there."""
        if name not in self.agents:
            raise InvalidDataset(where, f"agent {name!r} is not in the catalogue")
        return self.agents[name]


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
    if registry := about.get("registry"):
        return _registry_agents(registry, settings), []
    catalog = about.get("catalog")
    if not catalog:
        return _catalogue(path / AGENTS), [path / AGENTS]
    place = path / catalog
    if (place / AGENTS).is_file():  # the catalogue of another dataset
        return _catalogue(place / AGENTS), [place / AGENTS]
    listing = list_path(str(place))
    manifests = read_listing(listing, Reading(settings=settings))
    return _join_manifests(str(place), manifests), _files(place, listing)


def _registry_agents(place: str, settings: Settings) -> Manifest:
    """What a registry holds now, with what operators set of its tools. Raises as `LocalRegistry.open`."""
    with LocalRegistry.open(place, settings=settings) as registry:
        agents, tools = registry.agents(), registry.tools()
    routable = [each for each in agents if not (each.pending or each.hidden)]
    own = {each.id: tuple(tool for tool in tools if tool.agent_id == each.id and not tool.pending) for each in routable}
    entries = [AgentEntry(key=each.id, agent=each, tools=own[each.id]) for each in routable]
    return Manifest(source=place, entries=tuple(entries), partial=True)


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


def _catalogue(path: Path) -> Manifest:
    entries: dict[str, Any] = {}
    cut: list[Rejected] = []
    for where, record in lines(path):
        refuse_misspelt(record, _OF_AGENT, where)
        intake = Intake(where)
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


TRAJECTORIES = "trajectories.jsonl"
FAILED_MARK = "ERROR"
"""In the result of a call whose outcome is not told: it failed."""
_OF_TRAJECTORY = ("id", "turns", "split", "group")
_OF_TURN = ("role", "text", "agent", "tool", "arguments", "result", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A whole conversation, its turns in true order; `tool` of a call is the id of a tool, or of an agent that was
    called as a whole. Near copies share a `group`, which must not be divided between learning and test."""

    id: str
    turns: tuple[Turn, ...]
    split: str = ""
    group: str = ""


def read_trajectories(path: Path, names: CatalogueNames) -> Iterator[Trajectory]:
    """Raises InvalidDataset, with line and turn."""
    ids: set[str] = set()
    for where, record in lines(path):
        refuse_misspelt(record, _OF_TRAJECTORY, where)
        name, turns = id_of(record, "trajectory", where), record.get("turns")
        if name in ids:
            raise InvalidDataset(where, f"a second trajectory {name!r}")
        if not isinstance(turns, list):
            raise InvalidDataset(where, "turns: expected a list of objects")
        ids.add(name)
        yield Trajectory(
            id=name,
            turns=tuple(_turns(turns, names, where)),
            split=name_in(record, "split", where),
            group=name_in(record, "group", where) or name,
        )


def _turns(records: Sequence[object], names: CatalogueNames, where: str) -> Iterator[Turn]:
    is_asked = False
    for number, record in enumerate(records, start=1):
        turn = _turn(record, names, f"{where}, turn {number}")
        is_asked = is_asked or turn.role == "user"
        if turn.role == "call" and not is_asked:
            raise InvalidDataset(f"{where}, turn {number}", "a call before any word of the user")
        yield turn


def _turn(record: object, names: CatalogueNames, where: str) -> Turn:
    if not isinstance(record, Mapping):
        raise InvalidDataset(where, f"expected an object, found {type(record).__name__}")
    refuse_misspelt(record, _OF_TURN, where)
    match record.get("role"):
        case "call":
            agent = _text(record, "agent", where)
            is_whole = "tool" in record and record["tool"] is None
            tool = names.agent(agent, where) if is_whole else names.tool(agent, _text(record, "tool", where), where)
            result = record.get("result") or ""
            if not isinstance(result, str):
                raise InvalidDataset(where, f"result: expected a text, found {type(result).__name__}")
            return Turn(role="call", tool=tool, outcome=_outcome(record, result, where), result=result)
        case "user" | "assistant" as speaker:
            return Turn(role=cast("TurnRole", speaker), text=_text(record, "text", where))
        case other:
            raise InvalidDataset(where, f"role {other!r}; expected one of {', '.join(get_args(TurnRole))}")


def _text(record: Mapping[str, Any], field: str, where: str) -> str:
    text = record.get(field)
    if not isinstance(text, str) or not text.strip():
        raise InvalidDataset(where, f"a turn of the role {record['role']} needs a text in {field!r}")
    return text


def _outcome(record: Mapping[str, Any], result: str, where: str) -> CallOutcome:
    outcome = record.get("outcome", "failed" if FAILED_MARK in result else "ok")
    if outcome not in get_args(CallOutcome):
        raise InvalidDataset(where, f"outcome {outcome!r}; expected one of {', '.join(get_args(CallOutcome))}")
    return cast("CallOutcome", outcome)


AHEAD_S = 86_400.0
"""So far may another machine's clock be ahead."""
PAUSE = timedelta(minutes=30)
"""After so long without a call the next call of a caller begins another conversation."""
_OF_COUNT = {each.name for each in fields(Transition)}


def read_call_counts(path: Path, settings: Settings, now: str, *, split: str = "") -> list[Transition]:
    """Of the calls that did not fail. `now`, ISO 8601: when conversations of a folder count as held; of them only those
    of a split, if one is named.

    Raises InvalidDataset, with file and line, and SourceError for a folder's catalogue that cannot be read.
    """
    if path.is_dir():
        return count_transitions(_conversations(path, settings, split), now)
    records = list(lines(path))
    if records and records[0][1].keys() == _OF_COUNT:
        counts = [_count(where, record) for where, record in records]
    else:
        counts = [each for calls, at in _audit_calls(records) for each in count_transitions([calls], at)]
    if ahead := [each.last_at for each in counts if epoch_seconds(each.last_at) - epoch_seconds(now) > AHEAD_S]:
        raise InvalidDataset(str(path), f"{ahead[0]} is yet to come: beside such a count all others would fade")
    return counts


def _conversations(path: Path, settings: Settings, split: str) -> Iterator[list[str]]:
    data = read_data_folder(path, settings, TRAJECTORIES)
    trajectories = list(read_trajectories(path / TRAJECTORIES, CatalogueNames.of(data.catalogue)))
    if split and split not in {each.split for each in trajectories}:
        splits = ", ".join(sorted({each.split for each in trajectories} - {""})) or "none"
        raise InvalidDataset(str(path / TRAJECTORIES), f"no conversation is of the split {split!r}; splits: {splits}")
    for each in trajectories:
        if split in ("", each.split):
            yield [turn.tool for turn in each.turns if turn.role == "call" and turn.outcome == "ok"]


def _count(where: str, record: Mapping[str, Any]) -> Transition:
    try:
        transition = Transition(**record)
        if transition.is_sound:
            return transition
    except (TypeError, AttributeError):
        pass
    raise InvalidDataset(where, "expected first, next and before (ids of tools, or of agents), count and last_at")


def _audit_calls(records: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[list[str], str]]:
    """The calls of one caller with no long pause between them, and when the last one was."""
    open_: dict[str, tuple[list[str], datetime]] = {}
    for where, record in records:
        if not isinstance(record.get("action"), str):
            raise InvalidDataset(where, "neither a line of an audit nor a count as `waygraph learn export` writes it")
        if record["action"] != "call" or record.get("outcome") != "ok":
            continue
        caller, tool, at = str(record.get("caller", "")), record.get("target"), _time(where, record)
        if not isinstance(tool, str) or not is_tool(tool):
            raise InvalidDataset(where, f"target: expected a tool's id, found {tool!r}")
        calls, last = open_.get(caller, ([], at))
        if at - last > PAUSE:
            yield calls, last.isoformat()
            calls = []
        open_[caller] = ([*calls, tool], at)
    yield from ((calls, last.isoformat()) for calls, last in open_.values())


def _time(where: str, record: Mapping[str, Any]) -> datetime:
    text = record.get("time")
    try:
        at = datetime.fromisoformat(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidDataset(where, f"time: expected ISO 8601, found {text!r}") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
