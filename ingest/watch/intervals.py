"""How long a watch waits with the next change of a source that changes again and again.

Each revision of a registry costs a new index. A server that changes one word each second would make one each second.
"""

from dataclasses import dataclass, field

FREE_REVISIONS = 5
"""So many follow one another at once: a person who edits a file waits for nothing."""
FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 300.0
RECOVER_S = 600.0
"""After so long one revision of a source counts no more."""
_MOST_COUNTED = FREE_REVISIONS + 9.0
"""By then the pause is the longest: what changed for a year recovers as fast as what changed for an hour."""


@dataclass(slots=True)
class _Rate:
    revisions: float = 0.0
    """The revisions of late."""
    at_s: float = 0.0

    def count_now(self, now_s: float) -> float:
        return max(0.0, self.revisions - (now_s - self.at_s) / RECOVER_S)


@dataclass(slots=True)
class Intervals:
    """The least time from one revision of a source to the next, by a clock of which the caller tells the seconds.

    The pause doubles with each revision, after the first few, and halves with each `RECOVER_S` of rest.
    """

    _rates: dict[str, _Rate] = field(default_factory=dict)

    def count_revision(self, source: str, now_s: float) -> None:
        """A known part of the source changed, and was written."""
        rate = self._rates.get(source, _Rate())
        self._rates[source] = _Rate(min(rate.count_now(now_s) + 1, _MOST_COUNTED), now_s)

    def pause_s(self, source: str, now_s: float, more: int = 0) -> float:
        """From one revision of the source to the next, after so many more."""
        count = min(self._rates.get(source, _Rate()).count_now(now_s) + more, _MOST_COUNTED)
        if count < FREE_REVISIONS:
            return 0.0
        return min(FIRST_PAUSE_S * 2 ** (count - FREE_REVISIONS), MOST_PAUSE_S)

    def wait_s(self, source: str, now_s: float) -> float:
        """From now to the next revision of the source; 0: it may be written."""
        rate = self._rates.get(source, _Rate())
        return max(0.0, rate.at_s + self.pause_s(source, rate.at_s) - now_s) if rate.revisions else 0.0
