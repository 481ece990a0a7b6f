"""What the rules find in the texts of an agent or a tool, each with a reason.

A flag is a hint to a person, not a verdict: flagged text is shown with it, never dropped. The rules look for what
published attacks on tool descriptions do: orders (`orders`), hidden characters and encoded commands (`hidden_text`),
and names of other servers' tools (here). Whoever knows the rules can write around them.

A score of each sentence: how much it reads like an order to the model that the user did not give.

A linear layer over the embedder's vectors, learnt by `waygraph learn suspicion`. `layers/` holds one for each embedder
that has any; with another embedder, or without one, the rules speak alone.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import batched, chain, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from waygraph.ingest.manifest.suspicion.hidden_text import (
    STRAY,
    encoded_text,
    hidden_characters,
    in_latin,
    look_alike_word,
    quote,
    scripts_of,
    wide_gaps,
    without_hidden,
)
from waygraph.ingest.manifest.suspicion.rules import (
    Purpose,
    find_harm,
    find_orders,
    has_one,
    load_rules,
    purpose_of,
    sentences,
    spell_names,
)
from waygraph.registry.access.visibility import CALLS_ANOTHER, IN_PLACE, MAX_FLAGS, Shows, of_others
from waygraph.registry.model.identity import stated_words
from waygraph.registry.model.nouns import NOTICE, Agent, JsonText, Tool

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Embedder, Matrix, Vector


OwnedElsewhere = Callable[[Collection[str]], Mapping[str, Collection[str]]]
"""Of these names those that are other agents' tools, and not this one's: with the ids of these agents."""


MAX_NAMES = 50
MAX_READ_CHARS, OVERLAP_CHARS = 100_000, 2_000
"""Of one text at once, and what the next part repeats of it: no order is cut in two. A longer text gets a notice."""
_SHORT_CHARS = 100
"""Texts up to here, such as names of parameters, come again and again: what was found of them is kept."""
_SPACES = re.compile(r"\s{2,}")


@dataclass(frozen=True, slots=True)
class Findings:
    """What the rules find in the texts of one entity: all that can be known of them without a graph.

    `reasons` and `notices` hold by themselves. `named_tools`: where, and by which words, a text puts names aside or
    has them called; that matters only if another agent has a tool of this name. `scores_high`: no rule speaks, and a
    sentence reads so much like an order that the text waits where a policy has texts wait.
    """

    reasons: tuple[str, ...] = ()
    named_tools: tuple["NamedTools", ...] = ()
    notices: tuple[str, ...] = ()
    scores_high: bool = False

    @property
    def names(self) -> set[str]:
        return {name for each in self.named_tools for name in (*each.aside, *each.calls)}

    def flags(self, elsewhere: OwnedElsewhere, yields: Shows = lambda _owner: False) -> tuple[str, ...]:
        """At most `MAX_FLAGS` reasons, behind them those that tell of other agents, so that each such agent is in one
        of them. One that begins with NOTICE is no suspicion, as what tells of an agent that `yields`.
        """
        owners = elsewhere(sorted(self.names)) if self.named_tools else {}
        others = sorted(_of_others(self.named_tools, owners, yields), key=lambda flag: flag.startswith(NOTICE))
        return (*self.reasons[:MAX_FLAGS], *others, *self.notices)


class NamedTools(NamedTuple):
    """Name → the words around it."""

    where: str
    aside: Mapping[str, str]
    calls: Mapping[str, str]


def text_chars(entity: Agent | Tool) -> int:
    """How many characters there are to examine."""
    return sum(len(text) for _, text in _plain_texts(entity)) + sum(map(len, _schemas_of(entity).values()))


def examine(entity: Agent | Tool) -> Findings:
    """Takes time in proportion to the length of the texts."""
    texts = [Passage(*each) for each in _plain_texts(entity)]
    for where, schema in _schemas_of(entity).items():
        # What JSON escapes is not read as it stands.
        if "\\" in schema or len(schema) > MAX_READ_CHARS or _needs_a_look(schema):
            texts += (Passage(where, text, is_data) for text, is_data in schema_texts(json.loads(schema)))
    parameters = _parameters(entity.input_schema) if isinstance(entity, Tool) else ()
    return _examine_texts(texts, purpose_of(entity.name, parameters))


def describing_texts(entity: Agent | Tool) -> Iterator[tuple[str, str]]:
    """Where each text stands that describes an entity, and the text; names and values that are data are left out."""
    texts = [("description", entity.description)]
    for where, schema in _schemas_of(entity).items():
        if " " in schema:
            texts += ((where, text) for text, is_data in schema_texts(json.loads(schema)) if not is_data)
    return ((where, text[:MAX_READ_CHARS]) for where, text in texts if " " in text or not text.isascii())


_SCHEMAS = ("input_schema", "output_schema", "annotations")
_words_of = lru_cache(maxsize=64)(stated_words)


def _plain_texts(entity: Agent | Tool) -> Iterator[tuple[str, str]]:
    """Where each text stands that is no schema, and the text."""
    for where, value in _words_of(entity).items():
        if where not in _SCHEMAS:
            yield from ((where, text) for text in ((value,) if isinstance(value, str) else value))


def _schemas_of(entity: Agent | Tool) -> Mapping[str, JsonText]:
    words = _words_of(entity)
    return {name.replace("_", " "): str(words[name]) for name in _SCHEMAS if name in words}


def _parameters(schema: JsonText) -> tuple[str, ...]:
    document = json.loads(schema) if schema else {}
    properties = document.get("properties") if isinstance(document, dict) else None
    return tuple(properties) if isinstance(properties, dict) else ()


class Passage(NamedTuple):
    """A text of an entity. `is_data`: a value that a parameter has or may have."""

    where: str
    text: str
    is_data: bool = False


def _examine_texts(passages: Collection[Passage], purpose: Purpose) -> Findings:
    notices = dict.fromkeys(
        f"{NOTICE}{where}: has {len(text)} characters" for where, text, _ in passages if len(text) > MAX_READ_CHARS
    )
    named_tools, flags = list[NamedTools](), dict[str, None]()
    scripts = set[str]().union(*(scripts_of(text) for _, text, is_data in passages if not (is_data or text.isascii())))
    for passage in dict.fromkeys(part for each in passages for part in _parts_of(each)):
        if _needs_a_look(passage.text):
            readings = _readings(passage.text)
            if len(flags) < MAX_FLAGS:
                for reason in _reasons(passage, readings, purpose):
                    if reason.startswith(NOTICE):
                        notices[f"{NOTICE}{passage.where}: {reason.removeprefix(NOTICE)}"] = None
                    else:
                        flags[f"{passage.where}: {reason}"] = None
            named_tools += (tools for read in readings if (tools := _named_tools(passage.where, read)))
        if not passage.is_data and (word := look_alike_word(passage.text, scripts)):
            reason = f"{passage.where}: writes a word with letters that all look like Latin ones ({quote(word)})"
            if passage.where == "name":
                flags[reason] = None
            else:
                notices[f"{NOTICE}{reason}"] = None
        if not passage.is_data and (words := find_harm(passage.text)):
            notices[f"{NOTICE}{passage.where}: says that it does harm ({quote(words)})"] = None
    return Findings(tuple(islice(flags, MAX_FLAGS)), tuple(named_tools), tuple(islice(notices, MAX_FLAGS)))


def _parts_of(passage: Passage) -> Iterator[Passage]:
    starts = range(0, max(1, len(passage.text) - OVERLAP_CHARS), MAX_READ_CHARS - OVERLAP_CHARS)
    return (passage._replace(text=passage.text[at : at + MAX_READ_CHARS]) for at in starts)


def _needs_a_look(text: str) -> bool:
    """False for most texts, and for JSON as it is written, in which no rule can find anything."""
    return _look_at_short(text) if len(text) <= _SHORT_CHARS else _look(text)


def _look(text: str) -> bool:
    if not text.isascii():
        return True
    small = text.lower()
    rules = load_rules()
    if rules.may_order(small) or ((words := spell_names(text)) != text and rules.may_order(words.lower())):
        return True
    return has_one(rules.words_of_names, small) or any(chain(encoded_text(text), wide_gaps(text)))


_look_at_short = lru_cache(maxsize=2**15)(_look)


def _reasons(passage: Passage, readings: Collection[str], purpose: Purpose) -> Iterator[str]:
    """Of a value that is data what it says counts, and not which characters it has."""
    _, text, is_data = passage
    if not (is_data or text.isascii()):
        yield from (
            f"{NOTICE}{reason}" if reason == STRAY and passage.where != "name" else reason
            for reason in hidden_characters(text)
        )
    if not is_data:
        yield from wide_gaps(text)
    for read in readings:
        for order in find_orders(read, purpose, is_data=is_data):
            yield f"{NOTICE * order.is_notice}{order.reason} ({quote(order.words)})"
        if (many := len(_find_names(read, puts_aside=True))) > MAX_NAMES:  # a crowd would hide the one that is a tool's
            yield f"puts itself in the place of {many} names"
    yield from encoded_text(text, is_data=is_data)


def _readings(text: str) -> Collection[str]:
    """The text as a model may read it, with one space or line break for several: rules look at each anew."""
    plain = _SPACES.sub(lambda several: "\n" if "\n" in several.group() else " ", without_hidden(text))
    return dict.fromkeys((plain, latin := in_latin(plain), spell_names(latin)))


def _of_others(
    named_tools: Iterable[NamedTools], owners: Mapping[str, Collection[str]], yields: Shows
) -> Iterator[str]:
    """What tells of agents that nothing before told of: who reads it may see no other."""
    agents: set[str] = set()
    for where, aside, calls in named_tools:
        for name, words in {**calls, **aside}.items():
            if (of := owners.get(name)) and not agents.issuperset(of):
                agents.update(of)
                reason = IN_PLACE if name in aside else CALLS_ANOTHER
                for prefix, some in (("", {*of} - {*filter(yields, of)}), (NOTICE, {*filter(yields, of)})):
                    if some:
                        yield f"{prefix}{where}: {of_others(reason, some, f'{quote(name)} ({quote(words)})')}"


def _named_tools(where: str, text: str) -> NamedTools | None:
    """Other tools that the text puts itself in the place of, or has the model call; at most MAX_NAMES."""
    aside, calls = _find_names(text, puts_aside=True), _find_names(text, puts_aside=False)
    first_names = set(islice({**calls, **aside}, MAX_NAMES))
    aside, calls = ({name: words for name, words in names.items() if name in first_names} for names in (aside, calls))
    return NamedTools(where, aside, calls) if first_names else None


def _find_names(text: str, *, puts_aside: bool) -> dict[str, str]:
    """Names of tools that are not to be used, or that are to be called, with the words that say so."""
    small = text.lower()
    rules = [rule for rule in load_rules().names if rule.puts_aside is puts_aside and has_one(rule.words, small)]
    matches = (match for rule in rules for match in rule.pattern.finditer(text))
    return {next(filter(None, match.groups())): match.group() for match in matches}


_DATA_KEYWORDS = frozenset(
    "const default enum enumNames example examples format pattern x-enum-varnames x-enumNames x-example x-examples "
    "x-default".split()
)
_NAMING_KEYWORDS = frozenset("properties $defs definitions dependentSchemas dependencies".split())
"""Their values are schemas by name, and any name may be that of a keyword."""


def schema_texts(schema: object) -> Iterator[tuple[str, bool]]:
    """Every text in a schema at any depth, names included, and whether it is data. Not by recursion."""
    rest: list[tuple[object, _Part]] = [(schema, "schema")]
    while rest:
        value, part = rest.pop()
        if isinstance(value, str):
            yield value, part == "data"
        elif isinstance(value, Mapping):
            for name in value:
                yield name, part in ("data", "patterns")
            rest += ((each, _part_of(name, value, part)) for name, each in value.items())
        elif isinstance(value, list):
            rest += ((each, part) for each in value)


_Part = Literal["schema", "names", "patterns", "data"]


def _part_of(name: str, schema: Mapping[str, object], part: _Part) -> _Part:
    """What the value of this name is. The title of one constant only repeats that value for people."""
    if part != "schema":
        return "data" if part == "data" else "schema"
    values = schema.get("enum")
    is_constant = "const" in schema or (isinstance(values, list) and len(values) == 1)
    if name in _DATA_KEYWORDS or (name == "title" and is_constant):
        return "data"
    if name in _NAMING_KEYWORDS:
        return "names"
    return "patterns" if name == "patternProperties" else "schema"


MAX_SENTENCES = 100
"""Of one agent or tool, the longest ones; that there are more is told."""
MAX_SENTENCE_CHARS = 500
"""What is longer is scored in pieces, since an embedder reads only the beginning of a long text."""
ENTITIES_AT_ONCE = 500
"""So many are embedded together, which bounds the memory for vectors."""
LEAST_SENTENCE_BYTES, LEAST_OPENING_BYTES = 30, 60
"""Shorter ones are titles and labels; one that opens a description only says what the tool is for."""


class Sentence(NamedTuple):
    """`opens`: it is the first one of a description, which says what the tool is for."""

    where: str
    text: str
    opens: bool


def read_sentences(entity: Agent | Tool) -> list[Sentence]:
    """What of its texts can be scored, as a model reads it; values that are data are left out."""
    results = dict[Sentence, None]()
    for where, text in describing_texts(entity):
        opens = where == "description"
        for sentence in sentences(without_hidden(text)):
            for piece in _pieces(sentence):
                if len(piece.encode("utf-8", "surrogatepass")) >= (
                    LEAST_OPENING_BYTES if opens else LEAST_SENTENCE_BYTES
                ):
                    results[Sentence(where, piece, opens)] = None
            opens = False
    return list(results)


def _pieces(sentence: str) -> Iterator[str]:
    return (sentence[at : at + MAX_SENTENCE_CHARS] for at in range(0, len(sentence), MAX_SENTENCE_CHARS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What was learnt for one embedder. Scores lie between 0 and 1. From `notice` on a score is a notice; from `high`
    on the text waits under the policies `hold` and `strict`. No score is a suspicion.

    `weights`: float32 of shape (dimension,). `opening` is added for a sentence that opens a description.
    """

    embedder: str
    weights: "Vector"
    bias: float
    opening: float
    notice: float
    high: float

    def scores(self, vectors: "Matrix", texts: Sequence[Sentence]) -> "Vector":
        """float32 of shape (len(texts),); `vectors`: of these sentences."""
        import numpy as np

        opens = np.array([each.opens for each in texts], np.float32)
        sums = vectors @ self.weights + self.opening * opens + self.bias
        scores: Vector = (1 / (1 + np.exp(-sums))).astype(np.float32)
        return scores


@cache
def load_layers() -> dict[str, Layer]:
    """Fingerprint of an embedder → its layer."""
    places = files(__package__).joinpath("layers").iterdir()
    layers = [read_layer(place.read_bytes()) for place in places if place.name.endswith(".json")]
    return {layer.embedder: layer for layer in layers}


def read_layer(content: bytes) -> Layer:
    """`weights` are float16 in base64, little-endian."""
    import numpy as np

    document = json.loads(content)
    weights = np.frombuffer(b64decode(document["weights"]), "<f2").astype(np.float32)
    numbers = {name: float(document[name]) for name in ("bias", "opening", "notice", "high")}
    return Layer(embedder=document["embedder"], weights=weights, **numbers)


@dataclass(frozen=True, slots=True)
class Scorer:
    """An embedder and the layer that was learnt for it."""

    embedder: "Embedder"
    layer: Layer

    def find(self, entities: Sequence[Agent | Tool]) -> list[Findings]:
        """Of each the sentence with the highest score, if that is one to tell."""
        return [each for some in batched(entities, ENTITIES_AT_ONCE) for each in self._find(some)]

    def _find(self, entities: Sequence[Agent | Tool]) -> Iterator[Findings]:
        every = [read_sentences(entity) for entity in entities]
        longest = [sorted(each, key=lambda sentence: -len(sentence.text))[:MAX_SENTENCES] for each in every]
        vectors = self.embedder.embed([each.text for some in longest for each in some], "document")
        start = 0
        for some, whole in zip(longest, every, strict=True):
            scores = self.layer.scores(vectors[start : start + len(some)], some)
            start += len(some)
            yield self._judge(some, [float(score) for score in scores], len(whole))

    def _judge(self, texts: Sequence[Sentence], scores: Sequence[float], count: int) -> Findings:
        notices = list[str]()
        if count > len(texts):
            notices.append(f"{NOTICE}texts: of {count} sentences only the {len(texts)} longest were scored")
        score, sentence = max(zip(scores, texts, strict=True), default=(0.0, None))
        if sentence is not None and score >= self.layer.notice:
            words = f"(score {score:.2f}, no rule: {quote(sentence.text)})"
            notices.append(f"{NOTICE}{sentence.where}: may be an order to the model {words}")
        return Findings(notices=tuple(notices), scores_high=score >= self.layer.high)
