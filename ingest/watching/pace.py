"""How often a server is asked: in rest, when it tells of changes, and when it does not answer. Times in seconds."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The times that all servers share."""

    poll_s: float = 300.0
    """From one listing to the next of a server that says nothing else."""
    least_poll_s: float = 5.0
    most_poll_s: float = 3600.0
    """The bounds of what a server may ask for by itself."""
    jitter: float = 0.1
    """As a share either way: servers that were started together are not asked together for ever."""
    retry_first_s: float = 1.0
    retry_most_s: float = 300.0
    steady_s: float = 60.0
    """A connection that lasted so long was a good one: when it ends, trying begins anew with short pauses."""
    flood_first_s: float = 0.05
    flood_most_s: float = 2.0
    """Between two listings of a server that tells of changes without end."""

    def poll_after_s(self, lasts_s: float | None, random: Random) -> float:
        """When to list again a server that says for how long its listing holds; 0 is that it says nothing of it."""
        asked = min(max(lasts_s, self.least_poll_s), self.most_poll_s) if lasts_s else self.poll_s
        return asked * random.uniform(1 - self.jitter, 1 + self.jitter)


class Backoff:
    """Pauses that double, from `retry_first_s` to `retry_most_s`, each cut at random by up to a half."""

    def __init__(self, pace: Pace, random: Random) -> None:
        self._pace, self._random = pace, random
        self._next_s = pace.retry_first_s

    def pause_s(self) -> float:
        pause = self._next_s * self._random.uniform(0.5, 1)
        self._next_s = min(self._next_s * 2, self._pace.retry_most_s)
        return pause

    def begin_anew(self) -> None:
        self._next_s = self._pace.retry_first_s


class Rhythm:
    """When a change that was told is looked at: at once after a time of rest, ever later while more are told."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._gap_s = 0.0
        self._listed_s = float("-inf")

    def listed(self, now_s: float) -> None:
        """A listing begins."""
        self._listed_s = now_s

    def pause_s(self, now_s: float) -> float:
        """A change is told: how long to wait before the listing that shows it."""
        rested = now_s - self._listed_s > 2 * self._pace.flood_most_s
        grown = min(max(self._gap_s * 2, self._pace.flood_first_s), self._pace.flood_most_s)
        self._gap_s = 0.0 if rested else grown
        return max(0.0, self._listed_s + self._gap_s - now_s)
