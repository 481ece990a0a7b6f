"""What a request says that it does not want: "without Slack", "not by e-mail", "other than arXiv". English only.

Embedders and BM25 read such words as wanted. So they are kept out of what is searched for, and where they name agents
or tools, those are left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from waygraph.registry.access.visibility import narrow, routable
from waygraph.registry.index.analyser import LOOKS_CODED, fold, query_terms
from waygraph.registry.index.search_index import QueryText, Scope, SearchIndex
from waygraph.registry.model.nouns import Agent, Principal, Query

_CLAUSE = r"(?:^|(?<=[,;:.!?(\n–—])|(?<=\bbut)|(?<=\band))[^\S\n]*"
"""Elsewhere `not` denies a verb ("files that are not staged"), and `no` is what a thing has not."""
_MEANS = r"us(?:e|ing)|with|via|through|by"
_NEGATION = r"(?:do\s+not|don[’']t|never|not)"
_REFUSAL = (
    r"(?P<task>drop(?:ping)?)|(?:stay|keep|steer)(?:ing)?\s+(?:away\s+from|clear\s+of)"
    r"|exclude|ignor(?:e|ing)|avoid(?:ing)?|skip(?:ping)?|omit(?:ting)?|(?:anything|everything|all)\s+but"
    r"|leav(?:e|ing)(?:\s+out|(?=(?:\s+\S+){1,4}\s+out\b))"
)
_MARKER = re.compile(
    rf"""(?:
      (?P<lack>(?<![\w./-])(?:without|{_NEGATION}\s+want(?!\s+to\b)|{_REFUSAL})|(?<=\bwith)\s+no)
      |(?<![\w./-])(?:except(?:ing|\s+for)?|excluding|(?:other|rather)\s+than|instead\s+of)
      |(?<![\w./-]){_NEGATION}(?=\s+(?:{_MEANS}|from|on|to\s+(?:an?|the))\s)
      |{_CLAUSE}not(?!\s+(?:only|just|merely|simply|sure|more|less|later|yet|all|every|to|\w+ed)\b)
      |(?:^no|{_CLAUSE}(?-i:no))(?!\s+(?:more|less|fewer|later|sooner|longer|matter|one|problem|need)\b)
    )(?=\s)""",
    re.IGNORECASE | re.VERBOSE,
)
"""`lack`: what a thing lacks, nobody wants or is to be left alone may tell the tool ("a portrait without its
background", "skip this track"). Such words are unwanted only where they name an agent or a tool. `task`: a verb of
everyday tasks too ("drop the table"), so that only a name as it is written is one."""
_LEAD = re.compile(
    rf"\s+(?:(?P<means>{_MEANS})\s+)?(?:(?:from|on|to|in|for)\s+)?"
    r"(?P<article>(?:(?:an?|the|any|my|your|our|its|their|all|some|such)\s+)*)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\s*(?P<quote>[\"'`“‘]?)(?P<word>[^\s,;:!?()\[\]{}\"`“”]+)[\"`”’]?")
_VERB = re.compile(r"\w+ing\b", re.IGNORECASE)
_JOINT = re.compile(r"\s*(?:(?P<sure>n?or)|,?\s*and|,(?:\s*n?or)?)\s+(?=\S)", re.IGNORECASE)
_LIST_END = re.compile(r"\s*(?:[,.;:!?)\n]|$|(?:and|n?or)\b)", re.IGNORECASE)
"""Behind a name in a list; behind a verb (`not with Slack, fetch it`) its object follows."""
_QUOTATION = re.compile(r"\"[^\"]*\"|“[^”]*”|`[^`]*`|(?<!\w)'[^'\n]*'(?!\w)")
_CLAUSE_ENDS = frozenset("and but or nor then so because please".split())
_PHRASE_ENDS = _CLAUSE_ENDS | frozenset(
    """a about after also an any are as at be been before by can could did do does for from had has have he her him his
    how i if in instead into is it its may me might must my no not on onto our out over she should since than that the
    their them these they this those though to too under until upon us via was we were what when where whether which
    while who whose will with would you your""".split()
)
"""Function words: where the noun before them ends. After a verb (`without opening it`) only a clause's end ends it."""
_MOST_WORDS = 5
"""A longer noun phrase without any function word is none of English."""
_KIND_NOUNS = frozenset("agent api app mcp plugin server service skill tool".split())
"""What an agent is called beside its own name."""
_TOOL_NOUN = re.compile(r"\btools?\b", re.IGNORECASE)

MOST_PHRASES = 30
"""Each is compared with the names of all agents."""
_MOST_TOOLS = 1_000
"""Of one name."""


class Phrase(NamedTuple):
    """A part of a text that is not wanted. `start`: of the marker before it. `is_sure`: it is one whatever it names.
    `is_exact`: it names only what is written the same.
    """

    start: int
    end: int
    words: str
    is_means: bool
    is_sure: bool
    is_exact: bool


@lru_cache(maxsize=128)
def read_phrases(text: str) -> tuple[Phrase, ...]:
    """In order, MOST_PHRASES at most; none from a quotation."""
    markers = list(_MARKER.finditer(text))
    quotations = [each.span() for each in _QUOTATION.finditer(text)] if markers else []
    phrases: list[Phrase] = []
    for marker in markers:
        is_quoted = any(start < marker.end() <= end for start, end in quotations)
        if not is_quoted and not (phrases and marker.start() < phrases[-1].end):
            phrases += islice(_phrases_from(text, marker), MOST_PHRASES - len(phrases))
        if len(phrases) == MOST_PHRASES:
            break
    return tuple(phrases)


def _phrases_from(text: str, marker: re.Match[str]) -> Iterator[Phrase]:
    """The one behind a marker, and those joined to it."""
    start, place, is_sure, is_means = marker.start(), marker.end(), True, False
    while lead := _LEAD.match(text, place):
        is_verb = not lead["article"] and bool(_VERB.match(text, lead.end()))
        end = _end_of_phrase(text, lead.end(), _CLAUSE_ENDS if is_verb else _PHRASE_ENDS)
        if end == lead.end() or not (is_sure or _LIST_END.match(text, end)):
            return
        is_means = is_means or bool(lead["means"])
        is_sure = is_sure and (not marker["lack"] or is_means or is_verb)
        yield Phrase(start, end, text[lead.end() : end], is_means, is_sure, bool(marker["task"]))
        if not (joint := _JOINT.match(text, end)):
            return
        start, place, is_sure = end, joint.end() - 1, is_sure and bool(joint["sure"])


def _end_of_phrase(text: str, start: int, ends: frozenset[str]) -> int:
    """`start` itself where no phrase begins. `ends`: the words before which it ends."""
    place, count = start, 0
    while word := _WORD.match(text, place):
        bare = word["word"].rstrip(".'’")
        if bare.casefold() in ends or not bare:
            break
        place, count = word.end() - (len(word["word"]) - len(bare)), count + 1
        if ends is _PHRASE_ENDS and count > _MOST_WORDS:
            return start
        if place < word.end() and word["word"].endswith("."):
            break
    return place


def read_exclusions(query: Query, index: SearchIndex, principal: Principal | None) -> tuple[Query, tuple[str, ...]]:
    """The query to search for, without what its words leave out, and the ids of the agents and tools that they name.

    By the query's text and that which it is a step of, of what it could find otherwise. In turns before it nothing is
    left out by name.
    """
    phrases, of_whole = read_phrases(query.text), read_phrases(query.step_of)
    if not (phrases or of_whole or query.history):
        return query, ()
    ids_of = _find_named((*phrases, *of_whole), index, query, principal) if phrases or of_whole else {}
    ids = set[str]().union(*ids_of.values())
    text = _cut(query.text, (phrase for phrase in phrases if phrase.is_sure or ids_of[phrase]))
    # Hosts keep the request itself among their turns: there it stays the same text.
    texts = {query.text: text, query.step_of: query.step_of}
    turns = (
        (turn, texts.get(turn.text) or _cut(turn.text, filter(attrgetter("is_sure"), read_phrases(turn.text))))
        for turn in query.history
    )
    history = tuple(turn if turn.role == "call" else replace(turn, text=rest) for turn, rest in turns)
    filters = query.filters
    tools = {each for each in ids if "/" in each}
    if agents := ids - tools:
        filters = replace(filters, without_agent_ids=(*filters.without_agent_ids, *sorted(agents)))
    if tools:
        filters = narrow(filters, _without_tools(index, tools))
    return replace(query, text=text, filters=filters, history=history), tuple(sorted(ids))


def _without_tools(index: SearchIndex, tools: set[str]) -> frozenset[str]:
    """The ids of all other tools, and of the agents that have one of them, or none at all."""
    owners = index.tool_ids_of(list(index.agents())).items()
    members = {each for owner, ids in owners if not ids or not tools.issuperset(ids) for each in (owner, *ids)}
    return frozenset(members - tools)


def _cut(text: str, phrases: Iterable[Phrase]) -> str:
    """Without the phrases; the text itself where nothing telling would be left."""
    parts, place = [], 0
    for phrase in phrases:
        parts.append(text[place : phrase.start])
        place = phrase.end
    rest = "".join([*parts, text[place:]])
    return rest if query_terms(rest) else text


def _find_named(
    phrases: Iterable[Phrase], index: SearchIndex, query: Query, principal: Principal | None
) -> dict[Phrase, set[str]]:
    """Ids of agents that the query may find, by the phrase that names them; else of tools, else of agents of a kind."""
    agents = [each for each in index.agents().values() if routable(each, principal, query.filters)]
    namespaces = [(fold(each.namespace), each.agent_ids) for each in index.sources()]
    ids_of = {}
    for phrase in phrases:
        bare = _bare_name(phrase.words)
        keys = frozenset({fold(phrase.words), fold(bare)} - {""})
        members = {each for namespace, ids in namespaces if namespace in keys and not phrase.is_exact for each in ids}
        ids = {each.id for each in agents if each.id in members or _is_named(each, phrase, keys)}
        ids = ids or _find_tools(phrase, index, Scope(query.filters, principal))
        if not ids and (phrase.is_means or bare != phrase.words) and not phrase.is_exact:
            kinds = ((each.id, {fold(word) for word in (*each.tags, each.kind, f"{each.kind}s")}) for each in agents)
            ids = {agent_id for agent_id, words in kinds if not keys.isdisjoint(words)}
        ids_of[phrase] = ids
    return ids_of


def _find_tools(phrase: Phrase, index: SearchIndex, scope: Scope) -> set[str]:
    """Ids of tools by their whole name, which is often a plain word: as a means, beside `tool`, or as an identifier."""
    name = _TOOL_NOUN.sub("", phrase.words).strip()
    says_tool = not phrase.is_exact and (phrase.is_means or name != phrase.words)
    if not says_tool and (" " in name or not LOOKS_CODED.search(name)):
        return set()
    return {
        each
        for each in index.search(("name",), None, QueryText.of(name), _MOST_TOOLS, scope).scores_of("name")
        if "/" in each
    }


def _is_named(agent: Agent, phrase: Phrase, keys: frozenset[str]) -> bool:
    """By the whole phrase, or by the first words of its name (`Yahoo`, of Yahoo Finance) as a proper name."""
    names = {agent.id, agent.name}
    if phrase.is_exact:
        return phrase.words in names and bool(LOOKS_CODED.search(phrase.words) or not phrase.words.islower())
    if not all(keys.isdisjoint(_whole_names(name)) for name in names):
        return True
    return phrase.words[0].isupper() and not all(keys.isdisjoint(_name_openings(name)) for name in names)


@lru_cache(maxsize=16_384)
def _whole_names(name: str) -> tuple[str, ...]:
    return fold(name), fold(_bare_name(name))


@lru_cache(maxsize=16_384)
def _name_openings(name: str) -> tuple[str, ...]:
    words = _bare_name(name).split()
    return tuple(fold(" ".join(words[:count])) for count in range(1, len(words)))


def _bare_name(name: str) -> str:
    """Without `MCP server` and the like around it."""
    words = [word for word in re.split(r"(?:['’]s\b)?[\s_/-]+|['’]s$", name) if word]
    return " ".join(word for word in words if word.casefold().removesuffix("s") not in _KIND_NOUNS)
