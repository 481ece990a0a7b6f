"""Names for siblings by which an embedder finds the most of their members, chosen from candidate words."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

type EmbedNames = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts → float32 of shape (texts, dimension), rows of length 1, by the embedder of the members' vectors."""

WIDTH = 0.03
"""A difference of cosines by which a name is chosen e times as likely as another one."""
PRIOR = 0.3
"""What counts, beside the members found, how well a word tells the siblings apart by their texts."""
LEAST_ALONE = 0.5
"""A second word finds alone at least this share of what the first one does."""
LEAST_IN_ALL = 0.9
"""And the siblings together lose no more than this by it."""
SECOND_WORDS = 8
_ROUNDS = 4
_ALIKE_CHARS = 3


def choose_names(
    candidates: Sequence[Mapping[str, float]], members: Sequence[NDArray[np.float32]], embed: EmbedNames
) -> list[str]:
    """Of each sibling a word, or two with a hyphen; no two siblings share a word. Empty without a free word.

    `candidates`: of each its words, the most telling first, and how much each tells. `members`: of each sibling
    float32 of shape (members, dimension), rows of length 1. The names are improved one by one until none changes.
    """
    search = _Search(candidates, members, embed)
    for _ in range(_ROUNDS):
        before = list(search.names)
        for number in range(len(candidates)):
            search.choose_word(number)
        if search.names == before:
            break
    for number in range(len(candidates)):
        search.add_word(number)
    return search.names


def remember(embed: EmbedNames) -> EmbedNames:
    """The same; no name is embedded twice."""
    vectors: dict[str, NDArray[np.float32]] = {}

    def embed_names(names: Sequence[str]) -> NDArray[np.float32]:
        new = [name for name in dict.fromkeys(names) if name not in vectors]
        vectors.update(zip(new, embed(new) if new else (), strict=True))
        return np.stack([vectors[name] for name in names])

    return embed_names


class _Search:
    def __init__(
        self, candidates: Sequence[Mapping[str, float]], members: Sequence[NDArray[np.float32]], embed: EmbedNames
    ) -> None:
        sizes = [len(rows) for rows in members]
        self._candidates, self._embed, self._rows = candidates, embed, np.concatenate(members)
        self._class_of = np.repeat(np.arange(len(members)), sizes)
        self._weights = np.repeat([1 / max(1, size) for size in sizes], sizes)[:, None]
        self.names = [next(iter(words), "") for words in candidates]
        self._closeness = self._close_to(self.names)

    def choose_word(self, number: int) -> None:
        if not (words := self._free_words(number)):
            self.names[number] = ""
            return
        closeness = self._close_to(words)
        in_all, _ = self._shares(number, closeness)
        telling = self._candidates[number]
        values = in_all + PRIOR * np.array([telling[word] for word in words]) / (max(telling.values()) or 1.0)
        self._take(number, words, closeness, values)

    def add_word(self, number: int) -> None:
        """The second word that finds the most with the first one, if one does, and finds members alone too."""
        first = self.names[number]
        alike = [word for word in self._free_words(number) if word[:_ALIKE_CHARS] != first[:_ALIKE_CHARS]]
        if not (first and alike):
            return
        now, now_own = self._shares(number, self._closeness[:, [number]])
        in_all, own = self._shares(number, self._close_to(alike))
        does = (own >= LEAST_ALONE * now_own) & (in_all >= LEAST_IN_ALL * now)
        if pairs := [f"{first}-{alike[at]}" for at in np.flatnonzero(does)[:SECOND_WORDS]]:
            closeness = self._close_to(pairs)
            in_all, _ = self._shares(number, closeness)
            if in_all.max() > now[0]:
                self._take(number, pairs, closeness, in_all)

    def _free_words(self, number: int) -> list[str]:
        others = {word for at, name in enumerate(self.names) if at != number for word in name.split("-")}
        return [word for word in self._candidates[number] if word not in others]

    def _close_to(self, names: Sequence[str]) -> NDArray[np.float64]:
        """float64 of shape (members, names): how likely each is chosen, before it is divided by the sum of siblings."""
        cosines = self._rows @ self._embed([name.replace("-", " ") for name in names]).T
        return np.exp(cosines.astype(np.float64) / WIDTH)

    def _shares(self, number: int, closeness: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """If the sibling had each of these names: the likelihood of right choices, summed over siblings, and its own.

        float64 of shape (names,) each.
        """
        right = np.take_along_axis(self._closeness, self._class_of[:, None], axis=1)
        others = self._closeness.sum(axis=1, keepdims=True) - self._closeness[:, [number]]
        is_own = (self._class_of == number)[:, None]
        shares = np.where(is_own, closeness, right) / (others + closeness) * self._weights
        return shares.sum(axis=0), (shares * is_own).sum(axis=0)

    def _take(
        self, number: int, names: Sequence[str], closeness: NDArray[np.float64], values: NDArray[np.float64]
    ) -> None:
        """Equal values: the first one's."""
        best = int(np.round(values, 9).argmax())
        self.names[number], self._closeness[:, number] = names[best], closeness[:, best]
