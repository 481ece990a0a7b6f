"""Conversations with tool calls as a dataset: each call is a decision that a router is asked for."""

from collections.abc import Iterator
from pathlib import Path

from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import is_tool, owner_of
from waygraph_lab.datasets.conversations import TRAJECTORIES, CatalogueNames, Trajectory, read_trajectories
from waygraph_lab.datasets.folder import read_questions
from waygraph_lab.evaluation.dataset import Dataset, Need, Question


def decisions(trajectory: Trajectory) -> Iterator[Question]:
    """One for each call: its text is what the user said last, its history all turns before the call."""
    said = -1
    for at, turn in enumerate(trajectory.turns):
        if turn.role == "user":
            said = at
        elif turn.role == "call":
            yield Question(
                id=f"{trajectory.id}.{at + 1}",
                need=Need(
                    text=trajectory.turns[said].text,
                    gold=(frozenset({owner_of(turn.tool)}),),
                    gold_tools=(frozenset({turn.tool}),) if is_tool(turn.tool) else (),
                    history=trajectory.turns[:at],
                ),
                split=trajectory.split,
                group=trajectory.group,
            )


def read_decisions(path: Path, settings: Settings) -> Dataset:
    """Each call of each conversation as a question. Raises as `read_folder`."""
    return read_questions(path, settings, TRAJECTORIES, _decisions)


def _decisions(path: Path, known: CatalogueNames) -> Iterator[Question]:
    for trajectory in read_trajectories(path, known):
        yield from decisions(trajectory)
