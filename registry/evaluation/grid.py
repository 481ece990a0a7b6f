"""Ablations: every combination of what is to be varied, as trials."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from waygraph.registry.errors import InvalidSetting
from waygraph.registry.evaluation.dataset import By
from waygraph.registry.evaluation.trial import Trial, varied
from waygraph.registry.model import TextForm
from waygraph.registry.routing.recipes import Recipe
from waygraph.registry.writing import DEFAULT_TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What to vary. `None` among the values: as the recipe has it. Weights are (agent, tool)."""

    recipes: Sequence[Recipe]
    bys: Sequence[By] = ("questions",)
    weights: Sequence[tuple[float, float] | None] = (None,)
    ks: Sequence[float | None] = (None,)
    depths: Sequence[int | None] = (None,)
    texts: Sequence[TextForm | None] = (None,)
    embedders: Sequence[str] = ("",)
    split: str = ""

    def trials(self) -> tuple[Trial, ...]:
        """In the order of the values; a recipe that is made for other texts than those asked for is left out, and one
        that merges by score is not tried by k, which it has not.

        Raises InvalidSetting if none is left, or for a k or depth that cannot be.
        """
        trials = tuple(self._trials())
        for recipe, texts in () if trials else self.unfit:
            raise InvalidSetting(f"{recipe.name} is not tried over {texts} texts: it is made for {recipe.texts} ones")
        return trials

    @property
    def unfit(self) -> Sequence[tuple[Recipe, TextForm]]:
        """Which recipes are left out over which texts."""
        return [(r, texts) for r in self.recipes for texts in self.texts if texts and not r.takes(texts)]

    @property
    def without_k(self) -> Sequence[Recipe]:
        """Those that `ks` cannot vary."""
        return [recipe for recipe in self.recipes if recipe.merge == "by_score" and any(k is not None for k in self.ks)]

    @property
    def never_withholding(self) -> Sequence[Recipe]:
        """Those that are also tried in a way for which they were not calibrated.

        Orders are compared then: where one of them withholds nothing, none of that recipe does.
        """
        return [recipe for recipe in self.recipes if recipe.calibration and not self._stay_calibrated(recipe)]

    def _stay_calibrated(self, recipe: Recipe) -> bool:
        varieties = product(self.weights, self.depths)
        return all(varied(recipe, weights=weights, depth=depth).calibration for weights, depth in varieties)

    def _trials(self) -> Iterator[Trial]:
        for recipe in self.recipes:
            compared = recipe if self._stay_calibrated(recipe) else replace(recipe, calibration=None)
            ks = (None,) if recipe in self.without_k else self.ks
            texts_taken = [texts for texts in self.texts if texts is None or recipe.takes(texts)]
            combined = product(self.bys, self.embedders, texts_taken, self.weights, ks, self.depths)
            for by, embedder, texts, weights, k, depth in combined:
                yield Trial(
                    recipe=varied(compared, weights=weights, k=k, depth=depth),
                    by=by,
                    texts=texts or recipe.texts or DEFAULT_TEXTS,
                    embedder=embedder,
                    split=self.split,
                    label=_label(recipe.name, weights, k, depth, self._told(recipe, texts, embedder)),
                )

    def _told(self, recipe: Recipe, texts: TextForm | None, embedder: str) -> list[str]:
        """What tells a trial from others that share the rest."""
        told = [texts] if texts and len(self.texts) > 1 and recipe.needs_vectors else []
        return [*told, *([embedder] if len(self.embedders) > 1 and embedder else [])]


def _label(
    name: str, weights: tuple[float, float] | None, k: float | None, depth: int | None, others: Sequence[str]
) -> str:
    """Such as `paper (1.5, 1) k=60 N=50`."""
    parts = [name]
    parts += [f"({weights[0]:g}, {weights[1]:g})"] if weights else []
    parts += [f"k={k:g}"] if k is not None else []
    parts += [f"N={depth}"] if depth is not None else []
    return " ".join([*parts, *others])
