"""Tools that copy another server's tool, name and text, under another address (shadowing, typosquatting).

Most near copies are honest: forks, and one server reached in two ways. So a copy is a notice for operators. It is a
suspicion where the copy takes free text that the original does not: an argument more, for what the copy wants to have.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from waygraph.ingest.manifest.hidden_text import in_latin, quote, without_hidden
from waygraph.ingest.sync.diff import free_texts
from waygraph.registry.access.visibility import NEAR_COPY, of_others
from waygraph.registry.model.nouns import NOTICE, JsonText, Tool, parse_field

LIKE = 0.8
"""Of the runs of three words in either text so many stand in both (Jaccard)."""
LEAST_WORDS = 6
"""Shorter texts ("Search the web.") are alike by chance."""
_BEGINS_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def alike_names(name: str) -> set[str]:
    """The names of tools that a person or a model may take for this one: in Latin letters, and with other joints."""
    plain = in_latin(without_hidden(name))
    parts = [part.lower() for part in re.split(r"[_\W]+", _BEGINS_WORD.sub("_", plain)) if part]
    camel = "".join([*parts[:1], *(part.capitalize() for part in parts[1:])])
    return {name, plain, "_".join(parts), "-".join(parts), camel}


def is_long(text: str) -> bool:
    """Whether a text is long enough to be a copy of another."""
    return len(re.findall(r"\w+", text)) >= LEAST_WORDS


type Runs = frozenset[tuple[str, ...]]


def word_runs(text: str) -> Runs:
    """All its runs of three words; none of a text that is too short to tell."""
    words = re.findall(r"\w+", in_latin(without_hidden(text)).lower())
    return frozenset(zip(words, words[1:], words[2:], strict=False)) if len(words) >= LEAST_WORDS else frozenset()


def is_near_copy(runs: Runs, others: Runs) -> bool:
    both = len(runs & others)
    return both > 0 and both >= LIKE * (len(runs) + len(others) - both)


class Original(NamedTuple):
    """A tool that many may be compared with."""

    tool: Tool
    runs: Runs


def may_be_same_server(one: JsonText, other: JsonText) -> bool:
    """By the transports: the same, or of one host or one package. One that is not known may be any."""
    first, second = parse_field(one), parse_field(other)
    if not (first and second) or one == other:
        return True
    return bool(place := _place(first)) and place == _place(second)


def _place(transport: object) -> str:
    if not isinstance(transport, Mapping):
        return ""
    if url := transport.get("url"):
        return urlsplit(str(url)).hostname or ""
    if transport.get("command") in ("docker", "podman"):  # where its options end is not known
        return ""
    return next((str(word) for word in transport.get("args") or () if not str(word).startswith("-")), "")


def near_originals(tool: Tool, held: Tool | None, others: Iterable[Original]) -> list[Tool]:
    """Of others with a name that is alike, those whose text the tool has nearly.

    What was near to another's text before that one was told of stays the older one, whatever is changed in it.
    """
    is_told = held is not None and any(NEAR_COPY in flag for flag in held.flags)
    runs = word_runs(tool.description)
    before = frozenset[tuple[str, ...]]() if is_told or held is None else word_runs(held.description)
    return [other.tool for other in others if is_near_copy(runs, other.runs) and not is_near_copy(before, other.runs)]


def copy_flags(tool: Tool, originals: Iterable[Tool]) -> Iterator[str]:
    """Suspicions, and at most one notice, of a near copy of tools of other servers.

    One for each choice of what it takes more: in common words an agent that is seen would tell of a hidden one.
    """
    own = free_texts(tool.input_schema)
    owners: dict[tuple[str, ...], set[str]] = {}
    for other in originals:
        owners.setdefault(tuple(sorted(own - free_texts(other.input_schema))), set()).add(other.agent_id)
    for taken in sorted(owners, reverse=True):  # the notice last
        more = f", and takes text that it does not ({quote(', '.join(taken))})" if taken else ""
        reason = of_others(NEAR_COPY, owners[taken], f"{quote(tool.name)}{more}")
        yield f"{'' if taken else NOTICE}name and description: {reason}"
