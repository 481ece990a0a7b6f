"""What is remembered of agents, in bounded memory: in a long-lived service they come and go."""

from collections import OrderedDict

MOST_AGENTS = 4_096


class LastOf[V](OrderedDict[str, V]):
    """By agent id; with one more than `most`, the one that was set longest ago is forgotten. Set by `[]` alone."""

    def __init__(self, most: int = MOST_AGENTS) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, agent_id: str, value: V) -> None:
        super().__setitem__(agent_id, value)
        self.move_to_end(agent_id)
        if len(self) > self._most:
            self.popitem(last=False)
