"""A language model walks a taxonomy: A2X, Algorithm 2 (arXiv 2605.29270, §3.3).

Each call sees the children of one category, or one group of services. Branches that are not opened cost nothing.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass, field
from itertools import batched, takewhile
from operator import sub
from threading import Lock
from typing import Any

from waygraph.registry.language_model.endpoint import ChatModel, Completion
from waygraph.registry.language_model.messages import object_in
from waygraph.registry.model.errors import IndexOutdated, LanguageModelError, LanguageModelUnavailable, UnfitAnswer
from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.nouns import Mode, Pick, Visit, Walked
from waygraph.registry.taxonomy import prompts
from waygraph.registry.taxonomy.prompts import MOST_SHOWN, Draft, Role, Service
from waygraph.registry.taxonomy.tree import INDEX_CHANGED, SEPARATOR, Budget, Category, Taxonomy

type Read = Callable[[Sequence[str]], Sequence[Service]]
"""Ids → their texts, in that order. Raises IndexOutdated."""

MERGE = 30
"""θ_merge: a group of fewer services joins the nearest one."""
AT_ONCE = 8
_LIST = re.compile(r"[\d\s,]+")


@dataclass(slots=True)
class Account:
    """What walks cost together, within one budget. Threads may share it.

    `end_reason`: why nothing more is asked for any of them, as the endpoint is gone or the budget is spent.
    """

    budget: Budget = Budget()  # noqa: RUF009 - frozen
    clock: Callable[[], float] = time.monotonic
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    end_reason: str = ""
    _lock: Lock = field(default_factory=Lock)
    _ends_at: float = 0.0

    def __post_init__(self) -> None:
        self._ends_at = self.clock() + self.budget.deadline_s

    @property
    def left_s(self) -> float:
        return max(0.0, self._ends_at - self.clock())

    def begin_call(self) -> None:
        """Raises LanguageModelUnavailable if the budget is spent."""
        with self._lock:
            if self.calls >= self.budget.calls:
                raise LanguageModelUnavailable(f"the walk needs more than {self.budget.calls} calls")
            if self.prompt_tokens + self.completion_tokens >= self.budget.tokens:
                raise LanguageModelUnavailable(f"the walk needs more than {self.budget.tokens:,} tokens")
            if not self.left_s:
                raise self.too_late()
            self.calls += 1

    def add(self, completion: Completion) -> None:
        with self._lock:
            self.prompt_tokens += completion.prompt_tokens
            self.completion_tokens += completion.completion_tokens

    def costs(self) -> tuple[int, int, int]:
        """Calls, tokens of prompts, tokens of answers."""
        with self._lock:
            return self.calls, self.prompt_tokens, self.completion_tokens

    def too_late(self) -> LanguageModelUnavailable:
        return LanguageModelUnavailable(f"the walk took longer than {self.budget.deadline_s:g} s")


def walk(  # noqa: PLR0917
    query: str,
    taxonomy: Taxonomy,
    read: Read,
    chat: ChatModel,
    mode: Mode = Mode.ALL,
    account: Account | None = None,
    *,
    history: Sequence[Mapping[str, str]] = (),
    merge: int = MERGE,
) -> Walked:
    """`taxonomy`: as the caller may see it. `history`: the turns before, as the model reads them. `account`: shared by
    the walks of one request, one after the other; what this one added to it is told, also if it failed.

    Raises nothing of the model: `failure` says what ended the walk.
    """
    account = account or Account()
    if account.end_reason:
        return Walked(mode=mode, failure=account.end_reason)
    before = account.costs()
    pool = ThreadPoolExecutor(AT_ONCE)
    walker = _Walker(query, taxonomy, read, chat, account, pool, history)
    failure, selection = "", tuple[str, ...]()
    try:
        selection = walker.find(mode, merge)
        if mode is Mode.ONE:
            selection = (selection or walker.find(Mode.IMPORTANT, merge))[:1]
        if not selection and walker.unfit:
            failure = f"{chat.model} did not answer with numbers"
    except LanguageModelError as error:
        selection, failure = (), str(error)
        account.end_reason = "" if isinstance(error, UnfitAnswer) else failure
    except IndexOutdated:
        failure = account.end_reason = INDEX_CHANGED
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    calls, prompt_tokens, completion_tokens = map(sub, account.costs(), before)
    return Walked(
        mode=mode,
        selected=selection,
        calls=calls,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        visits=tuple(walker.visits),
        picks=tuple(walker.picks),
        failure=failure,
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Services that are shown in one call. `way`: the names down to where most of them stand; `paths`: to all."""

    way: tuple[str, ...]
    ids: tuple[str, ...]
    paths: tuple[str, ...]


def merge_small_groups(groups: Sequence[Group], least: int) -> list[Group]:
    """Groups of fewer than `least`, the smallest first, each join the one that is nearest by way of the lowest common
    ancestor, of equally near ones the smallest.
    """
    result = list(groups)
    while len(result) > 1:
        small = min(result, key=lambda group: len(group.ids))
        if len(small.ids) >= least:
            break
        result.remove(small)
        at = min(range(len(result)), key=lambda at: (_distance(small, result[at]), len(result[at].ids)))
        near = result[at]
        result[at] = Group(near.way, (*near.ids, *small.ids), (*near.paths, *small.paths))
    return result


def _distance(one: Group, other: Group) -> int:
    """Steps up to the lowest common ancestor and down."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.way, other.way, strict=False)))
    return len(one.way) + len(other.way) - 2 * common


type _Way = tuple[tuple[str, ...], Category]


@dataclass(slots=True)
class _Walker:
    query: str
    taxonomy: Taxonomy
    read: Read
    chat: ChatModel
    account: Account
    pool: ThreadPoolExecutor
    history: Sequence[Mapping[str, str]]
    unfit: int = 0
    visits: list[Visit] = field(default_factory=list)
    picks: list[Pick] = field(default_factory=list)

    def find(self, mode: Mode, merge: int) -> tuple[str, ...]:
        """Ids, each once. Raises LanguageModelError."""
        groups = merge_small_groups(self._groups(self._descend(mode)), merge)
        pages = [Group(group.way, ids, group.paths) for group in groups for ids in batched(group.ids, MOST_SHOWN)]
        answers = self._ask_all(prompts.SELECT[mode], [prompts.selection_rows(self.read(group.ids)) for group in pages])
        for group, numbers in zip(pages, answers, strict=True):
            self.picks.append(Pick(paths=group.paths, shown=len(group.ids), selected=len(numbers)))
        selection = (group.ids[number - 1] for group, numbers in zip(pages, answers, strict=True) for number in numbers)
        return tuple(dict.fromkeys(selection))

    def _descend(self, mode: Mode) -> dict[tuple[str, ...], list[_Way]]:
        """Way to a category → its children that the model opened; all nodes of a depth are asked about at once."""
        ways: dict[tuple[str, ...], list[_Way]] = {}
        tree, frontier = self.taxonomy, list[_Way]([((), self.taxonomy.root)])
        while frontier:
            inner = [(way, children) for way, category in frontier if (children := tree.children(category))]
            rows = [prompts.category_rows([_draft(child) for child in children]) for _, children in inner]
            answers = self._ask_all(prompts.NAVIGATE[mode], rows)
            frontier = []
            for (way, children), numbers in zip(inner, answers, strict=True):
                choices = [children[number - 1] for number in (numbers[:1] if mode is Mode.ONE else numbers)]
                ways[way] = [((*way, child.name), child) for child in choices]
                frontier += ways[way]
                names = tuple(child.name for child in choices)
                rest = tuple(child.name for child in children if child not in choices)
                self.visits.append(Visit(path=SEPARATOR.join(way), opened=names, pruned=rest))
        return ways

    def _groups(self, ways: Mapping[tuple[str, ...], Sequence[_Way]]) -> list[Group]:
        """What stands in the categories that were reached, each service where it comes first, the deepest first."""
        grouped_ids: set[str] = set()
        groups: list[Group] = []

        def collect(way: tuple[str, ...], category: Category) -> None:
            for below in ways.get(way, ()):
                collect(*below)
            ids = tuple(each for each in category.holds if each not in grouped_ids)
            grouped_ids.update(ids)
            if ids:
                groups.append(Group(way, ids, (SEPARATOR.join(way),)))

        collect((), self.taxonomy.root)
        return groups

    # Calls.

    def _ask_all(self, role: Role, requests: Sequence[list[dict[str, Any]]]) -> list[tuple[int, ...]]:
        """The numbers that are chosen of each list of rows. Raises LanguageModelError."""
        role = role.after_turns if self.history else role
        futures = [self.pool.submit(self._ask, role, rows) for rows in requests]
        try:
            answers = [self._result(future) for future in futures]
        except LanguageModelError:
            # What is under way is paid for: it counts, as far as it comes in time.
            wait([future for future in futures if not future.cancel()], timeout=self.account.left_s)
            raise
        self.unfit += answers.count(None)
        return [numbers or () for numbers in answers]

    def _result(self, future: "Future[tuple[int, ...] | None]") -> tuple[int, ...] | None:
        try:
            return future.result(timeout=self.account.left_s)
        except TooLate:
            raise self.account.too_late() from None

    def _ask(self, role: Role, rows: list[dict[str, Any]]) -> tuple[int, ...] | None:
        self.account.begin_call()
        request = {"choices": rows, "request": self.query}
        request |= {"history": self.history} if self.history else {}
        prompt = replace_surrogates(json.dumps(request, ensure_ascii=False))
        messages = [{"role": "system", "content": role.system}, {"role": "user", "content": prompt}]
        completion = self.chat.complete(messages, max_tokens=role.max_tokens, in_haste=True)
        self.account.add(completion)
        return numbers_in(completion.message.get("content"), len(rows))


def numbers_in(answer: object, count: int) -> tuple[int, ...] | None:
    """From 1 to `count`: of `{"numbers": […]}`, or of numbers with commas between; None if the answer is neither."""
    if not isinstance(answer, str):
        return None
    if _LIST.fullmatch(answer):
        return prompts.read_numbers({"numbers": re.findall(r"\d+", answer)}, count)
    return prompts.read_numbers(object_in(answer), count)


def _draft(category: Category) -> Draft:
    return Draft(category.name, category.description, category.boundary)
