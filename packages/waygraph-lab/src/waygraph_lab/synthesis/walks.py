"""Walks over the candidate graph of ToolACE-MCP (section 3.4)."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random


def neighbours(edges: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Of each candidate that has some, in order of id; edges have no direction."""
    near: dict[str, set[str]] = {}
    for one, other in edges:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    return {candidate: sorted(others - {candidate}) for candidate, others in near.items()}


def walk(near: Mapping[str, Sequence[str]], seed: str, size: int, chance: Random) -> list[str]:
    """At most `size` candidates, `seed` first: depth first to a neighbour by chance, back where none is new."""
    path, found = [seed], {seed: None}
    while path and len(found) < size:
        unseen = [each for each in near.get(path[-1], ()) if each not in found]
        if not unseen:
            path.pop()
            continue
        path.append(chance.choice(unseen))
        found[path[-1]] = None
    return list(found)
