"""Conversations with tool calls: `trajectories.jsonl`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from waygraph.ingest.conversations.data_folder import AGENTS, CatalogueNames, id_of, lines, name_in, refuse_misspelt
from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.nouns import CallOutcome, Turn, TurnRole

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
