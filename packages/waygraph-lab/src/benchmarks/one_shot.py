"""The one-shot build of A2X (arXiv 2605.29270, section 4.3 and appendix E.2), and its additive variants.

One call designs three levels; then each service goes to a leaf by a call of its own. A service without a leaf is lost.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import batched
from typing import Any

from waygraph.registry.language_model.answers import ModelAnswers
from waygraph.registry.model.errors import UnfitAnswer
from waygraph.registry.model.nouns import DEFAULT_TAXONOMY, Of
from waygraph.registry.taxonomy.model_build import KEYWORDS_SHOWN, PROBLEMS_SHOWN
from waygraph.registry.taxonomy.prompts import KEYWORDS, Role, Service, read_keywords, service_row, service_rows
from waygraph.registry.taxonomy.tree import SEPARATOR, By, Category, Taxonomy, TaxonomySettings

LEVELS = 3
MOST_CHILDREN = 20
AXIS = (
    "All categories follow one axis: what users want to get done (travel, personal finance, health). Never divide by "
    "technique, provider, format or form of deployment. "
)
_TREE = (
    "The catalogue has three levels: 6 to 10 top categories, 3 to 5 categories below each, and 3 to 5 leaves below "
    "each of these. A name is short and plain, and holds no '>'."
)
_ANSWER = '{"categories": [{"name": "Travel", "children": [{"name": "Flights", "children": [{"name": "Fares"}]}]}]}'
DESIGN = Role(task=f"You design a catalogue of all the services. {_TREE}", answer=_ANSWER, max_tokens=16_000)
DESIGN_BY_KEYWORDS = Role(
    task=f"You design a catalogue of services from their keywords and how often each occurs. {_TREE}",
    answer=_ANSWER,
    max_tokens=16_000,
)
REFINE = Role(
    task=(
        "You improve a catalogue of services. Services are given that fit none of its leaves, so that something is "
        f"missing, and the sizes of its leaves. Answer the whole catalogue anew; keep what works. {_TREE}"
    ),
    answer=_ANSWER,
    max_tokens=16_000,
)
PLACE = Role(
    task="You put a service into the one leaf of the catalogue that it belongs to. Answer with the leaf's whole path.",
    answer='{"path": "Travel > Flights > Fares"}',
    max_tokens=300,
)

type Path = tuple[str, ...]
type Design = tuple[Path, ...]
"""The paths of the leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What of the recursive build is added: the table of keywords, refinement, the demand for one axis."""

    keywords: bool = False
    refinements: int = 0
    single_axis: bool = False


VARIANTS: Mapping[str, Additions] = {
    "one shot": Additions(),
    "one shot, keyword table": Additions(keywords=True),
    "one shot, refinement": Additions(refinements=TaxonomySettings().max_refinements),
    "one shot, one axis": Additions(single_axis=True),
}


def build_in_one_shot(
    services: Sequence[Service], *, answers: ModelAnswers, additions: Additions, at_once: int = 20
) -> Taxonomy:
    """What no leaf takes is not in it. Raises UnfitAnswer without a design, LanguageModelError."""
    with ThreadPoolExecutor(at_once) as pool:
        build = _OneShot(services, answers, additions, pool)
        leaves = build.design()
        places = build.place(leaves)
        for _ in range(additions.refinements):
            if None not in places.values() or (again := build.refine(leaves, places)) in ((), leaves):
                break
            leaves, places = again, build.place(again)
    usage = answers.usage
    return Taxonomy(
        name=DEFAULT_TAXONOMY,
        of=Of.AGENTS,
        built_by=f"openai:{answers.model}",
        categories={each.id: each for each in _categories(leaves, places)},
        calls=usage.calls + usage.kept,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
    )


@dataclass(frozen=True, slots=True)
class _OneShot:
    services: Sequence[Service]
    answers: ModelAnswers
    additions: Additions
    pool: ThreadPoolExecutor

    def design(self) -> Design:
        role, facts = DESIGN, dict[str, Any](services=service_rows(self.services))
        if self.additions.keywords:
            role, facts = DESIGN_BY_KEYWORDS, dict[str, Any](keywords=self._keywords())
        if leaves := self._design(role, facts):
            return leaves
        raise self.answers.refusal or UnfitAnswer(f"{self.answers.model} did not answer with a catalogue")

    def refine(self, leaves: Design, places: Mapping[str, Path | None]) -> Design:
        lost = [each for each in self.services if places[each.id] is None]
        sizes = Counter(filter(None, places.values()))
        facts = {
            "leaves": [{"path": _text(leaf), "size": sizes[leaf]} for leaf in leaves],
            "fit_none": {"count": len(lost), "services": service_rows(lost[:PROBLEMS_SHOWN])},
        }
        return self._design(REFINE, facts)

    def place(self, leaves: Design) -> dict[str, Path | None]:
        """Id → leaf, None where the answer names none. A call a service."""
        known = {_text(leaf).casefold(): leaf for leaf in leaves}
        paths = [_text(leaf) for leaf in leaves]

        def place(service: Service) -> Path | None:
            facts = {"leaves": paths, "service": service_row(service)}
            answer = self.answers.ask(
                PLACE.system, facts, is_fit=lambda answer: "path" in answer, max_tokens=PLACE.max_tokens
            )
            return known.get(_normal(str(answer.get("path"))))

        return dict(zip([each.id for each in self.services], self.pool.map(place, self.services), strict=True))

    def _design(self, role: Role, facts: Mapping[str, Any]) -> Design:
        """Empty without a fit answer."""
        role = replace(role, task=f"{AXIS}{role.task}") if self.additions.single_axis else role
        answer = self.answers.ask(
            role.system, facts, is_fit=lambda answer: len(read_leaves(answer)) > 1, max_tokens=role.max_tokens
        )
        leaves = read_leaves(answer)
        return leaves if len(leaves) > 1 else ()

    def _keywords(self) -> list[list[Any]]:
        """The most frequent first, each with its count."""
        settings, counts = TaxonomySettings(), Counter[str]()
        for batch in batched(self.services, settings.keyword_batch):
            facts = {
                "limit": settings.keywords_per_service,
                "known": [word for word, _ in counts.most_common(KEYWORDS_SHOWN // 2)],
                "services": service_rows(batch),
            }
            read = partial(read_keywords, count=len(batch), limit=settings.keywords_per_service)
            answer = self.answers.ask(
                KEYWORDS.system,
                facts,
                is_fit=lambda answer, read=read: read(answer) is not None,
                max_tokens=KEYWORDS.max_tokens,
            )
            counts.update(read(answer) or ())
        return [[word, count] for word, count in counts.most_common(KEYWORDS_SHOWN)]


def read_leaves(answer: Mapping[str, Any]) -> Design:
    """Each path once, at most `LEVELS` deep; of a node more than `MOST_CHILDREN` children are dropped."""
    return tuple(dict.fromkeys(_leaves(answer.get("categories"), ())))


def _leaves(rows: object, above: Path) -> Iterator[Path]:
    for row in rows[:MOST_CHILDREN] if isinstance(rows, list) else ():
        name = row.get("name") if isinstance(row, Mapping) else None
        if not isinstance(name, str) or not (name := name.replace(">", " ").strip()[:60]):
            continue
        path = (*above, name)
        below = list(_leaves(row.get("children"), path)) if len(path) < LEVELS else []
        yield from below or [path]


def _text(path: Path) -> str:
    return " > ".join(path)


def _normal(text: str) -> str:
    return " > ".join(part.strip() for part in text.split(">")).casefold()


def _categories(leaves: Design, places: Mapping[str, Path | None]) -> Iterator[Category]:
    """The root first, parents before children; without categories that hold nothing."""
    holds: dict[Path, dict[str, By]] = {leaf: {} for leaf in leaves}
    for service, leaf in places.items():
        if leaf is not None:
            holds[leaf][service] = By.MODEL
    filled = [leaf for leaf in leaves if holds[leaf]]
    paths = dict.fromkeys(leaf[:depth] for depth in range(LEVELS + 1) for leaf in filled if len(leaf) >= depth)
    identify: Callable[[Path], str] = lambda path: sha256(SEPARATOR.join(path).encode()).hexdigest()[:12]  # noqa: E731
    for path in paths:
        children = [each for each in paths if len(each) == len(path) + 1 and each[: len(path)] == path]
        yield Category(
            id=identify(path),
            name=path[-1] if path else "",
            depth=len(path),
            children=tuple(map(identify, children)),
            holds=holds.get(path, {}),
        )
