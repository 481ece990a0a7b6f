"""Whose tool a call name may mean: found by what all call names of an agent begin with."""

from collections.abc import Iterable

from waygraph.registry.identity import call_prefix


class CallNames:
    """Of the agents of one revision: made once, asked for any name."""

    def __init__(self, agent_ids: Iterable[str]) -> None:
        self._owners: dict[str, list[str]] = {}
        for agent_id in agent_ids:
            self._owners.setdefault(call_prefix(agent_id), []).append(agent_id)
        self._longest = max(map(len, self._owners), default=0)

    def owners(self, name: str) -> list[str]:
        """Agent ids, those of the longest prefix first."""
        lengths = range(min(len(name), self._longest), 0, -1)
        return [owner for length in lengths for owner in self._owners.get(name[:length], ())]
