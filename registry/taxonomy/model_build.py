"""Builds a taxonomy by a language model: A2X, Algorithm 1 (arXiv 2605.29270, §3.2 and appendix A).

The answers are kept on disk by their prompts, and each prompt follows from the services and the answers before it. So
they are the state of a build: one that was killed goes on where it was when it is run again, and repeats no call.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import batched
from typing import TYPE_CHECKING, Any

from waygraph.registry.language_model.answers import ModelAnswers, Usage
from waygraph.registry.model.errors import InvalidSetting, UnfitAnswer
from waygraph.registry.model.nouns import DEFAULT_TAXONOMY, Of
from waygraph.registry.taxonomy import prompts
from waygraph.registry.taxonomy.prompts import Draft, Role, Service
from waygraph.registry.taxonomy.tree import ROOT, SEPARATOR, By, Category, Taxonomy, TaxonomySettings

if TYPE_CHECKING:
    from waygraph.registry.taxonomy.vectors_build import Matrix, Vectors

TRIES = 2
"""For a design, without which a node stays whole."""
KEYWORDS_SHOWN = 400
"""To a designer, the most frequent first; half of them to the next batch."""
PROBLEMS_SHOWN = 60
"""Services of each kind that a refiner sees."""
LEAST_CONFIDENCE = 40
"""Percent, for a second parent."""
EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How far a build is. `state`: bfs, cross_domain or complete. `path`: of the node at work. `waiting`: nodes behind
    it in the queue. `usage` counts on.
    """

    state: str
    path: str
    waiting: int
    usage: Usage


type Watch = Callable[[Work], None]


@dataclass(slots=True, kw_only=True)
class _Node:
    """`services`: ids, of all that stand here or below. `holds`: of those that stand here. `lost`: of those for which
    there was no fit answer.
    """

    draft: Draft
    path: str
    depth: int
    services: list[str]
    axis: str = ""
    children: list["_Node"] = field(default_factory=list)
    holds: dict[str, By]
    lost: list[str] = field(default_factory=list)

    def leaves(self) -> Iterator["_Node"]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def build_by_model(
    services: Sequence[Service],
    vectors: "Vectors",
    _before: Taxonomy | None = None,
    *,
    answers: ModelAnswers,
    settings: TaxonomySettings = TaxonomySettings(),  # noqa: B008 - frozen
    watch: Watch | None = None,
) -> Taxonomy:
    """A `Builder`. Vectors, float32 of shape (dimension,), count for services that the model does not place and for
    examples. `watch` is called on each answer.

    Raises LanguageModelUnavailable if the endpoint stays away (the same call goes on later), LanguageModelRefused if it
    refuses, UnfitAnswer if there is no design of the root or not one service is placed.
    """
    with ThreadPoolExecutor(settings.workers) as pool:
        build = _Build(services, answers, settings, pool, watch)
        root = build.grow()
        _put_lost(root, vectors)
        if settings.cross_domain:
            build.cross_list(root)
        build.report("complete")
    usage = answers.usage
    return Taxonomy(
        name=DEFAULT_TAXONOMY,
        of=Of.AGENTS,
        built_by=f"openai:{answers.model}",
        categories=_categories(root, vectors),
        settings=settings,
        calls=usage.calls + usage.kept,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
    )


def place_by_model(
    services: Sequence[Service],
    _vectors: "Vectors",
    before: Taxonomy | None,
    *,
    answers: ModelAnswers,
    workers: int | None = None,
) -> Taxonomy:
    """A `Builder` that keeps the tree: what stands in the nearest leaf alone goes where a model says, a call a level.

    What the model gives no fit answer for stays where it is. Raises InvalidSetting without a tree, and as
    `build_by_model` where the endpoint stays away or refuses.
    """
    if before is None:
        raise InvalidSetting("there is no taxonomy of this name to place anything in: `waygraph taxonomy build` first")
    holds = {each.id: dict(each.holds) for each in before.categories.values()}
    nearest = {entity for entities in holds.values() for entity, by in entities.items() if by is By.NEAREST}
    waiting = [each for each in services if each.id in nearest]
    with ThreadPoolExecutor(workers or before.settings.workers) as pool:
        ways = list(pool.map(lambda each: _descend(each, before, answers), waiting))
    for each, category in zip(waiting, ways, strict=True):
        if category is not None:
            for entities in holds.values():
                if entities.get(each.id) is By.NEAREST:
                    del entities[each.id]
            holds[category.id][each.id] = By.MODEL
    return replace(
        before,
        categories={each.id: replace(each, holds=holds[each.id]) for each in before.categories.values()},
        calls=before.calls + answers.usage.calls + answers.usage.kept,
        prompt_tokens=before.prompt_tokens + answers.usage.prompt_tokens,
        completion_tokens=before.completion_tokens + answers.usage.completion_tokens,
    )


def _descend(service: Service, taxonomy: Taxonomy, answers: ModelAnswers) -> Category | None:
    """Where it belongs, by one classification a level: a leaf, or the category none of whose children it fits."""
    at = taxonomy.root
    while at.children:
        children = [taxonomy.categories[child] for child in at.children]
        rows = prompts.category_rows([Draft(each.name, each.description, each.boundary) for each in children])
        request = {"categories": rows, "service": prompts.service_row(service)}
        read = partial(prompts.read_numbers, count=len(children))
        if (numbers := _ask(answers, prompts.CLASSIFY, request, taxonomy.settings, read)) is None:
            return None
        if not numbers:
            break
        at = children[numbers[0] - 1]
    return at


type _Request = Mapping[str, Any]
type _Read[T] = Callable[[Mapping[str, Any]], T | None]


def _ask[T](
    answers: ModelAnswers, role: Role, request: _Request, settings: TaxonomySettings, read: _Read[T]
) -> T | None:
    """What is read of the answer; None if it is unfit."""
    answer = answers.ask(
        role.system,
        request,
        is_fit=lambda answer: read(answer) is not None,
        max_tokens=role.max_tokens,
        temperature=settings.temperature,
    )
    return read(answer)


class _Build:
    def __init__(
        self,
        services: Sequence[Service],
        answers: ModelAnswers,
        settings: TaxonomySettings,
        pool: ThreadPoolExecutor,
        watch: Watch | None,
    ) -> None:
        self._services = {service.id: service for service in services}
        self._answers, self._settings, self._pool, self._watch = answers, settings, pool, watch
        self._path, self._waiting = ROOT, 0

    def report(self, state: str) -> None:
        if self._watch:
            self._watch(Work(state=state, path=self._path, waiting=self._waiting, usage=self._answers.usage))

    def grow(self) -> _Node:
        """Breadth first, from a root that holds everything."""
        ids = list(self._services)
        root = _Node(
            draft=Draft("", "Everything"), path=ROOT, depth=0, services=ids, holds=dict.fromkeys(ids, By.MODEL)
        )
        queue = deque([root])
        while queue:
            node = queue.popleft()
            if len(node.services) > self._settings.leaf_size and node.depth < self._settings.max_depth:
                self._path, self._waiting = node.path, len(queue)
                self._split(node)
                queue.extend(node.children)
        return root

    # One node.

    def _split(self, node: _Node) -> None:
        """A node of which there is no fit design stays a leaf. Raises UnfitAnswer for a root."""
        table = self._keywords(node) if len(node.services) > self._settings.keyword_threshold else {}
        axis, drafts = self._design(node, table)
        if not drafts:
            if node.depth == 0:
                raise self._answers.refusal or self._unfit(f"did not answer with top categories, in {TRIES} tries")
            return
        if node.depth == 0 and self._settings.single_axis:
            axis, drafts = self._validate(axis, drafts, table)
        places = self._classify(node, drafts)
        for _ in range(self._settings.max_refinements):
            generic = [each for each, some in places.items() if some and self._is_generic(some, len(drafts))]
            without_place = [each for each, some in places.items() if some == ()]
            if not generic and not without_place:
                break
            refinement = self._refine(node, drafts, places, generic, without_place)
            if not refinement[1] or refinement[1] == drafts:
                break
            axis, drafts = refinement
            places = self._classify(node, drafts)
        if node.depth == 0 and all(place is None for place in places.values()):
            raise self._answers.refusal or self._unfit(f"placed none of {len(places)} services")
        node.axis = axis
        self._settle(node, drafts, places)

    def _unfit(self, failure: str) -> UnfitAnswer:
        return UnfitAnswer(f"{self._answers.model} {failure}; {self._answers.advice()}")

    def _keywords(self, node: _Node) -> Counter[str]:
        """Keyword → how many services have it. Each batch sees those of the batches before it."""
        counts, settings = Counter[str](), self._settings
        for batch in batched(self._of(node.services), settings.keyword_batch):
            request = {
                "limit": settings.keywords_per_service,
                "known": [word for word, _ in counts.most_common(KEYWORDS_SHOWN // 2)],
                "services": prompts.service_rows(batch),
            }
            read = partial(prompts.read_keywords, count=len(batch), limit=settings.keywords_per_service)
            counts.update(self._ask(prompts.KEYWORDS, request, read) or ())
            self.report("bfs")
        return counts

    def _design(self, node: _Node, table: Mapping[str, int]) -> tuple[str, tuple[Draft, ...]]:
        request: dict[str, Any] = {"parent": self._parent(node), "limit": self._settings.max_categories}
        if table:
            return self._drafts(prompts.DESIGN_BY_KEYWORDS, request | {"keywords": _most_frequent(table)})
        services = [prompts.service_row(each, prompts.BRIEF_CHARS) for each in self._of(node.services)]
        return self._drafts(prompts.DESIGN_BY_SERVICES, request | {"services": services})

    def _drafts(self, role: Role, request: Mapping[str, Any]) -> tuple[str, tuple[Draft, ...]]:
        """Of the first fit answer."""
        role = role if self._settings.single_axis else role.on_any_axis
        for attempt in range(TRIES):
            again = {"note": "Your last answer was not such JSON with two categories or more."} if attempt else {}
            design = self._ask(
                role, {**request, **again}, partial(prompts.read_design, limit=self._settings.max_categories)
            )
            self.report("bfs")
            if design:
                return design
        return "", ()

    def _validate(
        self, axis: str, drafts: tuple[Draft, ...], table: Mapping[str, int]
    ) -> tuple[str, tuple[Draft, ...]]:
        """Designed anew if some categories leave the axis; as it was if the answer is not fit."""
        limit = self._settings.max_categories
        request: dict[str, Any] = {"limit": limit, "axis": axis, "categories": prompts.category_rows(drafts)}
        request["keywords"] = _most_frequent(table)
        revision = self._ask(prompts.VALIDATE, request, partial(prompts.read_revision, limit=limit))
        return (revision[0] or axis, revision[1]) if revision and revision[1] else (axis, drafts)

    def _classify(self, node: _Node, drafts: Sequence[Draft]) -> dict[str, tuple[int, ...] | None]:
        """Id → numbers of categories, from 1; None where no answer was fit. A call a service."""
        rows = prompts.category_rows(drafts)
        read = partial(prompts.read_numbers, count=len(drafts))
        requests = ({"categories": rows, "service": prompts.service_row(each)} for each in self._of(node.services))
        answers = self._ask_all(prompts.CLASSIFY, [(request, read) for request in requests], "bfs")
        return dict(zip(node.services, answers, strict=True))

    def _is_generic(self, numbers: Sequence[int], children: int) -> bool:
        """Whether a service fits more children than the share; it always may fit one."""
        return len(numbers) > max(1.0, self._settings.generic_ratio * children)

    def _refine(
        self,
        node: _Node,
        drafts: Sequence[Draft],
        places: Mapping[str, tuple[int, ...] | None],
        generic: Sequence[str],
        without_place: Sequence[str],
    ) -> tuple[str, tuple[Draft, ...]]:
        sizes = Counter(number for numbers in places.values() for number in numbers or ())
        request: dict[str, Any] = {
            "parent": self._parent(node),
            "limit": self._settings.max_categories,
            "categories": prompts.category_rows(drafts, [sizes[number] for number in range(1, len(drafts) + 1)]),
        }
        for kind, ids in (("fit_none", without_place), ("fit_too_many", generic)):
            request[kind] = {"count": len(ids), "services": prompts.service_rows(self._of(ids[:PROBLEMS_SHOWN]))}
        return self._drafts(prompts.REFINE, request)

    def _settle(self, node: _Node, drafts: Sequence[Draft], places: Mapping[str, tuple[int, ...] | None]) -> None:
        """Makes the children. What is generic, fits none, or would be in a child of too few stays at the node."""
        members: list[list[str]] = [[] for _ in drafts]
        for each, numbers in places.items():
            for number in () if self._is_generic(numbers or (), len(drafts)) else numbers or ():
                members[number - 1].append(each)
        for draft, ids in zip(drafts, members, strict=True):
            if len(ids) > self._settings.delete_size:
                path = f"{node.path}{SEPARATOR}{draft.name}" if node.path else draft.name
                holds = dict.fromkeys(ids, By.MODEL)
                node.children.append(_Node(draft=draft, path=path, depth=node.depth + 1, services=ids, holds=holds))
        below = {each for child in node.children for each in child.services}
        node.lost = [each for each, numbers in places.items() if numbers is None]
        node.holds = {each: By.MODEL for each in places if each not in below and places[each] is not None}

    # The second parents.

    def cross_list(self, root: _Node) -> None:
        """Adds at most one leaf under another top category to each service, where the model is sure of it."""
        tops, places = root.children, _tops_of(root)
        if len(tops) < 2:
            return
        self._path, self._waiting = ROOT, 0
        counts: dict[str, int] = {}
        questions = [
            (leaf, ids, [at for at, top in enumerate(tops) if top is not own])
            for own in tops
            for leaf in own.leaves()
            for ids in batched(leaf.holds, self._settings.keyword_batch)
        ]
        cross = []
        for leaf, ids, others in questions:
            read = partial(prompts.read_pairs, services=len(ids), domains=len(others))
            cross.append((self._cross_request(leaf, ids, [tops[at] for at in others]), read))
        all_pairs = self._ask_all(prompts.CROSS_DOMAIN, cross, "cross_domain")
        for (_, ids, others), pairs in zip(questions, all_pairs, strict=True):
            for number, domain in (pairs or {}).items():
                each, at = ids[number - 1], others[domain - 1]
                if at not in places[each]:
                    counts.setdefault(each, at)
        leaves = {at: [*tops[at].leaves()] for at in set(counts.values())}
        requests = []
        for each, at in counts.items():
            read_leaf = partial(prompts.read_leaf, count=len(leaves[at]), least=LEAST_CONFIDENCE)
            requests.append((self._place_request(each, tops[at], leaves[at]), read_leaf))
        answers = self._ask_all(prompts.PLACE, requests, "cross_domain")
        for (each, at), leaf_number in zip(counts.items(), answers, strict=True):
            if leaf_number:
                leaves[at][leaf_number - 1].holds[each] = By.CROSS

    def _cross_request(self, leaf: _Node, ids: Sequence[str], others: Sequence[_Node]) -> dict[str, Any]:
        return {
            "domains": prompts.category_rows([top.draft._replace(rule="") for top in others]),
            "leaf": self._parent(leaf),
            "services": prompts.service_rows(self._of(ids), self._settings.description_chars),
        }

    def _place_request(self, each: str, top: _Node, leaves: Sequence[_Node]) -> dict[str, Any]:
        drafts = [leaf.draft._replace(name=leaf.path, rule="") for leaf in leaves]
        service = prompts.service_row(self._services[each])
        return {"domain": top.draft.name, "leaves": prompts.category_rows(drafts), "service": service}

    # Calls.

    def _ask[T](self, role: Role, request: _Request, read: _Read[T]) -> T | None:
        return _ask(self._answers, role, request, self._settings, read)

    def _ask_all[T](self, role: Role, requests: Sequence[tuple[_Request, _Read[T]]], state: str) -> list[T | None]:
        """What is read of each, in order; as many at once as the settings say."""
        answers = []
        for answer in self._pool.map(lambda each: self._ask(role, *each), requests):
            answers.append(answer)
            self.report(state)
        return answers

    def _of(self, ids: Sequence[str]) -> list[Service]:
        return [self._services[each] for each in ids]

    def _parent(self, node: _Node) -> dict[str, str]:
        return {"path": node.path, "description": node.draft.description, "boundary": node.draft.boundary}


def _most_frequent(table: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(table).most_common(KEYWORDS_SHOWN))


def _tops_of(root: _Node) -> dict[str, set[int]]:
    """Id → which of the root's children it stands under."""
    places: dict[str, set[int]] = {}
    for at, top in enumerate(root.children):
        for leaf in top.leaves():
            for each in leaf.holds:
                places.setdefault(each, set()).add(at)
    return places


def _put_lost(node: _Node, vectors: "Vectors") -> None:
    """Puts what the model did not place into the nearest leaf below its node, by the mean of a leaf's vectors.

    Without a vector it stays at its node. `vectors`: by id, float32 of shape (dimension,).
    """
    for child in node.children:
        _put_lost(child, vectors)
    strays = [each for each in node.lost if each in vectors]
    leaves = [leaf for leaf in node.leaves() if any(each in vectors for each in leaf.holds)] if strays else []
    node.holds |= dict.fromkeys([each for each in node.lost if not leaves or each not in vectors], By.NEAREST)
    if not leaves:
        return
    import numpy as np

    directions = np.stack([_direction([*leaf.holds], vectors) for leaf in leaves])
    for each in strays:
        leaves[int(np.argmax(directions @ vectors[each]))].holds[each] = By.NEAREST


def _direction(ids: Sequence[str], vectors: "Vectors") -> "Matrix":
    """Of those that have a vector: float32 of shape (dimension,)."""
    import numpy as np

    from waygraph.registry.taxonomy.vectors_build import direction_of

    return direction_of(np.stack([vectors[each] for each in ids if each in vectors]))


def _examples(ids: Sequence[str], vectors: "Vectors") -> tuple[str, ...]:
    """The most like the rest by vectors, float32 of shape (dimension,); without any the first."""
    with_vector = [each for each in ids if each in vectors]
    direction = _direction(with_vector, vectors) if with_vector else None
    by_nearness = (
        sorted(with_vector, key=lambda each: -float(vectors[each] @ direction)) if direction is not None else ids
    )
    return tuple(by_nearness[:EXAMPLES])


def _categories(root: _Node, vectors: "Vectors") -> dict[str, Category]:
    """By id, which follows from the path; the root first, parents before children. Vectors as of `build_by_model`."""
    categories: dict[str, Category] = {}
    queue = deque([root])
    while queue:
        node = queue.popleft()
        category_id = _id(node.path)
        categories[category_id] = Category(
            id=category_id,
            name=node.draft.name,
            description=node.draft.description,
            boundary=node.draft.boundary,
            axis=node.axis,
            depth=node.depth,
            children=tuple(_id(child.path) for child in node.children),
            holds=node.holds,
            examples=_examples(node.services, vectors),
        )
        queue.extend(node.children)
    return categories


def _id(path: str) -> str:
    return sha256(path.encode()).hexdigest()[:12]
