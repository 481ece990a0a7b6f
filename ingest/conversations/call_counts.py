"""What was called after what, from files: conversations with tool calls, a service's audit, an export of counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast, get_args

from waygraph.ingest.conversations.data_folder import (
    AGENTS,
    CatalogueNames,
    id_of,
    lines,
    name_in,
    read_data_folder,
    refuse_misspelt,
)
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.nouns import CallOutcome, Turn, TurnRole
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import Transition, count_transitions, is_later, is_tool

TRAJECTORIES = "trajectories.jsonl"
TRAJECTORY_FILES = (AGENTS, TRAJECTORIES)
FAILED_MARK = "ERROR"
"""In the result of a call whose outcome is not told: it failed."""
_OF_TRAJECTORY = ("id", "turns", "split", "group")
_OF_TURN = ("role", "text", "agent", "tool", "arguments", "result", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A whole conversation, its turns in true order; `tool` of a call is a tool's id. Near copies share a `group`,
    which must not be divided between learning and test."""

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
            tool = names.tool(_text(record, "agent", where), _text(record, "tool", where), where)
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
    if ahead := [each.last_at for each in counts if is_later(each.last_at, now, AHEAD_S)]:
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
