"""Tools that copy another server's tool, name and text, under another address (shadowing, typosquatting).

Most near copies are honest: forks, and one server reached in two ways. So a copy is a notice for operators. It is a
suspicion where the copy takes free text that the original does not: an argument more, for what the copy wants to have.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from waygraph.ingest.manifest.hidden_text import in_latin, quote, without_hidden
from waygraph.ingest.sync.diff import free_texts
from waygraph.registry.access.visibility import NEAR_COPY, of_others
from waygraph.registry.model.nouns import NOTICE, JsonText, Tool, parse_field

LIKE = 0.8
"""Of the runs of three words in either text so many stand in both (Jaccard)."""
LEAST_WORDS = 6
"""Shorter texts ("Search the web.") are alike by chance."""
_RUN = 3
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


def is_near_copy(one: str, other: str) -> bool:
    first, second = (re.findall(r"\w+", in_latin(without_hidden(text)).lower()) for text in (one, other))
    if min(len(first), len(second)) < LEAST_WORDS:
        return False
    runs, others = ({tuple(w[i : i + _RUN]) for i in range(len(w) - _RUN + 1)} for w in (first, second))
    return len(runs & others) >= LIKE * len(runs | others)


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


def copy_flags(tool: Tool, held: Tool | None, others: Iterable[Tool]) -> tuple[str, ...]:
    """Suspicions, and at most one notice; `others`: tools of other servers with a name that is alike.

    What was near to another's text before that one was told of stays the older one, whatever is changed in it.
    """
    is_told = held is not None and any(NEAR_COPY in flag for flag in held.flags)
    copied = [
        other
        for other in others
        if is_near_copy(tool.description, other.description)
        and (is_told or held is None or not is_near_copy(held.description, other.description))
    ]
    return tuple(_flags(tool, copied))


def _flags(tool: Tool, copied: Collection[Tool]) -> Iterator[str]:
    """One for each choice of what it takes more: in common words an agent that is seen would tell of a hidden one."""
    own = free_texts(tool.input_schema)
    owners: dict[tuple[str, ...], set[str]] = {}
    for other in copied:
        owners.setdefault(tuple(sorted(own - free_texts(other.input_schema))), set()).add(other.agent_id)
    for taken in sorted(owners, reverse=True):  # the notice last
        more = f", and takes text that it does not ({quote(', '.join(taken))})" if taken else ""
        reason = of_others(NEAR_COPY, owners[taken], f"{quote(tool.name)}{more}")
        yield f"{'' if taken else NOTICE}name and description: {reason}"
