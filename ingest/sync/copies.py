"""Tools that copy another server's tool, name and text, under another address (shadowing, typosquatting).

Most near copies are honest: forks, and one server reached in two ways. So a copy is a notice for operators. It is a
suspicion where the copy takes free text that the original does not: an argument more, for what the copy wants to have.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from heapq import nsmallest
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from waygraph.ingest.manifest.suspicion.hidden_text import in_latin, quote, without_hidden
from waygraph.registry.access.visibility import MAX_OWNERS, NEAR_COPY, of_others
from waygraph.registry.model.nouns import NOTICE, JsonText, Tool, is_approved

LIKE = 0.8
"""Of the runs of three words in either text so many stand in both (Jaccard)."""
LEAST_WORDS = 6
"""Shorter texts ("Search the web.") are alike by chance."""
MAX_COMPARED, MAX_COMPARED_CHARS = 200, 20_000
"""With so many tools one is compared, the oldest; and so much of a text."""
_BEGINS_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def alike_names(name: str) -> set[str]:
    """The names of tools that a person or a model may take for this one: in Latin letters, and with other joints."""
    plain = in_latin(without_hidden(name))
    parts = [part.lower() for part in re.split(r"[_\W]+", _BEGINS_WORD.sub("_", plain)) if part]
    camel = "".join([*parts[:1], *(part.capitalize() for part in parts[1:])])
    return {name, plain, "_".join(parts), "-".join(parts), camel}


type Runs = frozenset[tuple[str, ...]]
_WORD = re.compile(r"\w+")


def word_runs(text: str) -> Runs:
    """All runs of three words in its first MAX_COMPARED_CHARS; none of a text that is too short to tell."""
    words = _WORD.findall(in_latin(without_hidden(text[:MAX_COMPARED_CHARS])).lower())
    return frozenset(zip(words, words[1:], words[2:], strict=False)) if len(words) >= LEAST_WORDS else frozenset()


def is_long(text: str) -> bool:
    """Whether a text is long enough to be a copy of another."""
    return sum(1 for _ in islice(_WORD.finditer(text), LEAST_WORDS)) == LEAST_WORDS


def is_near_copy(runs: Runs, others: Runs) -> bool:
    both = len(runs & others)
    return both > 0 and both >= LIKE * (len(runs) + len(others) - both)


def server_of(transport: JsonText) -> str:
    """The host or package, else the whole transport: agents of one are one server. Empty: it may be any."""
    fields = json.loads(transport) if transport else None
    return _place(fields) or transport if fields else ""


def _place(transport: object) -> str:
    if not isinstance(transport, Mapping):
        return ""
    if url := transport.get("url"):
        return urlsplit(str(url)).hostname or ""
    if transport.get("command") in ("docker", "podman"):  # where its options end is not known
        return ""
    return next((str(word) for word in transport.get("args") or () if not str(word).startswith("-")), "")


class Seniority(NamedTuple):
    """Since when an agent is known, how high the rank of its sources is, and whether somebody approved its text."""

    since: str = "~"
    """"~": it is new."""
    rank: int = 0
    is_approved: bool = False

    def is_older(self, other: "Seniority") -> bool:
        return self.since < other.since

    def outranks(self, other: "Seniority") -> bool:
        """Whether it is trusted more: what strangers register must not have it denied."""
        return (self.is_approved, self.rank) > (other.is_approved, other.rank)

    def of_tool(self, tool: Tool | None) -> "Seniority":
        """That of an agent's tool, as it is held."""
        return self._replace(is_approved=self.is_approved or (tool is not None and is_approved(tool)))


class Original(NamedTuple):
    """A held tool, its server, how senior its agent is, and who sees that one."""

    tool: Tool
    server: str
    seniority: Seniority = Seniority()
    audience: tuple[str, ...] = ()


class _Namesakes:
    """Tools of one name, the oldest first, found by the runs that the fewest of them have.

    Two sets of which LIKE is common share one of their rarest runs, so that few others need be compared (prefix
    filtering; Bayardo, Ma and Srikant 2007). However many an attacker adds, they are younger than what they copy.
    """

    def __init__(self, originals: Iterable[tuple[Original, Runs]]) -> None:
        self._all = list(originals)
        self._frequencies = Counter(run for _, runs in self._all for run in runs)
        self._having: dict[tuple[str, ...], list[int]] = {}
        for at, (_, runs) in enumerate(self._all):
            for run in self._rarest(runs):
                if len(places := self._having.setdefault(run, [])) < MAX_COMPARED:
                    places.append(at)

    def candidates(self, runs: Runs) -> Iterator[tuple[Original, Runs]]:
        places = {at for run in self._rarest(runs) for at in self._having.get(run, ())}
        return (self._all[at] for at in sorted(places)[:MAX_COMPARED])

    def _rarest(self, runs: Runs) -> list[tuple[str, ...]]:
        number = len(runs) - int(LIKE * len(runs)) + 1
        return nsmallest(number, runs, key=lambda run: (self._frequencies[run], run))


class CopySearch:
    """Looks for near copies, for one sync. What was compared once is not compared again."""

    def __init__(self) -> None:
        self._runs: dict[str, Runs] = {}
        self._free_texts: dict[JsonText, set[str]] = {}
        self._others: Sequence[Original] = ()
        self._namesakes: dict[str, _Namesakes] = {}
        self._near: dict[tuple[str, str], list[Original]] = {}

    def flags(
        self, tool: Tool, old: Tool | None, transport: JsonText, others: Sequence[Original], own: Seniority
    ) -> Iterator[str]:
        """Suspicions and notices of a near copy of others on other servers than the `transport`'s, which are known
        longer. `own`: of the tool's agent; what it outranks gives notices alone.

        One for each choice of what it takes more: in common words an agent that is seen would tell of a hidden one.
        """
        server, owners = server_of(transport), dict[tuple[bool, tuple[str, ...]], set[str]]()
        self._prepare(others)
        key = tool.content_hash, old.content_hash if old else ""
        if key not in self._near:
            self._near[key] = list(self._compare(tool, old))
        for near in self._near[key]:
            if server and near.server != server and not own.is_older(near.seniority):
                more = self._free_texts_of(tool) - self._free_texts_of(near.tool)
                is_suspicion = bool(more) and not own.of_tool(old).outranks(near.seniority.of_tool(near.tool))
                owners.setdefault((is_suspicion, tuple(sorted(more))), set()).add(near.tool.agent_id)
        for is_suspicion, paths in sorted(owners, reverse=True):  # notices last
            takes = f", and takes text that it does not ({quote(', '.join(paths))})" if paths else ""
            reason = of_others(NEAR_COPY, owners[is_suspicion, paths], f"{quote(tool.name)}{takes}")
            yield f"{'' if is_suspicion else NOTICE}name and description: {reason}"

    def _prepare(self, others: Sequence[Original]) -> None:
        if others is self._others:
            return
        if others != self._others:
            by_name = dict[str, list[Original]]()
            for each in others:
                by_name.setdefault(each.tool.name, []).append(each)
            self._namesakes = {name: _Namesakes(self._choose(alike)) for name, alike in by_name.items()}
            self._near = {}
        self._others = others

    def _choose(self, alike: Iterable[Original]) -> Iterator[tuple[Original, Runs]]:
        """The oldest first. Of those with one text and one schema, shown to the same, a few servers' tell all."""
        counts = Counter[tuple[str | tuple[str, ...], ...]]()
        for each in sorted(alike, key=lambda each: (each.seniority.since, each.tool.id)):
            text = each.tool.description
            same = (text, each.tool.input_schema, each.audience)
            if not counts[*same, each.server] and counts[same] <= MAX_OWNERS and counts[text,] < MAX_COMPARED:
                counts.update([(*same, each.server), same, (text,)])
                yield each, self._runs_of(text)

    def _compare(self, tool: Tool, old: Tool | None) -> Iterator[Original]:
        """Of others with a name that is alike, the oldest of those whose text the tool has nearly.

        What was near to another's text before that one was told of stays its own, whatever is changed in it.
        """
        if not (runs := self._runs_of(tool.description)):
            return
        is_told = old is not None and any(NEAR_COPY in flag for flag in old.flags)
        before = frozenset[tuple[str, ...]]() if is_told or old is None else self._runs_of(old.description)
        for name in sorted(alike_names(tool.name) & self._namesakes.keys()):
            for original, others in self._namesakes[name].candidates(runs):
                if is_near_copy(runs, others) and not is_near_copy(before, others):
                    yield original

    def _runs_of(self, text: str) -> Runs:
        if text not in self._runs:
            self._runs[text] = word_runs(text)
        return self._runs[text]

    def _free_texts_of(self, tool: Tool) -> set[str]:
        if tool.input_schema not in self._free_texts:
            self._free_texts[tool.input_schema] = free_texts(tool.input_schema)
        return self._free_texts[tool.input_schema]


def free_texts(schema: JsonText) -> set[str]:
    """Where arguments may hold any text: paths such as `filter/name`, of properties at any depth.

    A string without `enum`, `const`, `format` or `pattern`, and what has no type. A `$ref` is not followed.
    """
    paths: set[str] = set()
    queue: list[tuple[str, Any]] = [("", json.loads(schema) if schema else {})]
    while queue:
        path, value = queue.pop()
        if not isinstance(value, Mapping):
            continue
        inner = value.get("properties")
        properties = inner if isinstance(inner, Mapping) else {}
        queue += [(_path_under(path, name), each) for name, each in properties.items()]
        queue += [(path, each) for key in ("anyOf", "oneOf", "allOf") for each in _as_list(value.get(key))]
        queue += [
            (path, value[key]) for key in ("items", "additionalProperties") if isinstance(value.get(key), Mapping)
        ]
        kinds = value.get("type", () if properties or _COMBINATIONS & value.keys() else "string")
        if path and "string" in _as_list(kinds) and not _LIMITS & value.keys():
            paths.add(path)
    return paths


_MAX_PATH_CHARS = 500
"""A longer path is told apart by a hash of its begin: of names nested in names the sum grows with the square."""


def _path_under(path: str, name: str) -> str:
    longer = f"{path}/{name}".lstrip("/")
    return longer if len(longer) <= _MAX_PATH_CHARS else f"…{sha256(longer.encode()).hexdigest()}"


_COMBINATIONS = frozenset({"anyOf", "oneOf", "allOf", "items", "$ref"})
_LIMITS = frozenset({"enum", "const", "format", "pattern"})


def _as_list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
