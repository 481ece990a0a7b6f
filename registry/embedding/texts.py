"""Which texts stand for an agent or a tool, and the vectors of those that changed.

`plain` is the text of the Agent-as-a-Graph paper, `name: description`. `contextual` says more: whose the tool
is, what it takes, what an agent can do. `concat` and the forms of TDWA are the storage strategies of ScaleMCP: a
tool's name, description, parameters and questions in one text, or as parts of a weighted mean.
"""

import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched, islice
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from waygraph.registry.embedding.embedder import Embedder, Matrix, Progress, Vector, shift_progress, unit_rows
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import StorageFailed
from waygraph.registry.model.identity import SKILL_MESSAGE, digest, replace_surrogates
from waygraph.registry.model.nouns import Agent, JsonText, TextForm, Tool, stated_text
from waygraph.registry.model.parameters import parameters_of_text
from waygraph.registry.model.validation import weights_of

if TYPE_CHECKING:
    from waygraph.registry.graph.write import NewVectors

TOOL_NAMES_SHOWN = 25
"""More names than these would fill what a model reads of an agent's text."""
MAX_PARAMETERS = 100
"""Of a tool, that are told."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n")
_MAX_SENTENCE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Parts:
    """The texts whose weighted `unit_mean` is an entity's vector; without weights each counts as much as the next."""

    texts: tuple[str, ...]
    weights: tuple[float, ...] = ()

    @property
    def shares(self) -> tuple[float, ...]:
        """A weight a text."""
        return self.weights or (1.0,) * len(self.texts)


def tool_parts(form: TextForm, agent: Agent, tool: Tool, limit_chars: int) -> Parts:
    """What the tool's vector is made of, each text cut at the limit.

    Of TDWA (ScaleMCP, Equation 1) each component is a part; so is every question, and they share the weight of
    questions evenly. What a tool lacks leaves its weight to the rest in proportion: since the mean is scaled to length
    1, that is to leave the part out.
    """
    if (weights := weights_of(form)) is None:
        return Parts(tool_texts(form, agent, tool, limit_chars))
    components = {
        "name": (tool.name,),
        "description": (tool.description,),
        "parameters": (parameter_text(tool.input_schema),),
        "questions": tool.questions,
        "agent": (agent.name,),
    }
    parts = [(text, weight / len(components[name])) for name, weight in weights.items() for text in components[name]]
    weighted_texts = [(text[:limit_chars], weight) for text, weight in parts if text.strip() and weight]
    return Parts(tuple(text for text, _ in weighted_texts), tuple(weight for _, weight in weighted_texts))


def tool_texts(form: TextForm, agent: Agent, tool: Tool, limit_chars: int) -> tuple[str, ...]:
    """The texts of the forms that weigh none: one if plain or concat, three if contextual; each cut at the limit.

    Contextual: whose tool it is, all that it says, and what it does in one sentence, which tells siblings apart.
    """
    plain = _title_text(tool.name, tool.description)
    if form == "plain":
        return (plain[:limit_chars],)
    parameters = parameter_text(tool.input_schema)
    with_parameters = f"{plain} Parameters: {parameters}" if parameters else plain
    if form == "concat":
        return (" ".join([with_parameters, *tool.questions])[:limit_chars],)
    texts = (f"{agent.name} | {plain}", with_parameters, first_sentence(tool.description))
    return tuple(text[:limit_chars] for text in texts if text)


def first_sentence(description: str) -> str:
    """Or its first line, if that ends earlier: at most 160 characters, cut at a word."""
    first = SENTENCE_END.split(description.strip(), maxsplit=1)[0].strip()
    if len(first) > _MAX_SENTENCE_CHARS:
        first = first[:_MAX_SENTENCE_CHARS].rpartition(" ")[0] or first[:_MAX_SENTENCE_CHARS]
    return first


def agent_texts(form: TextForm, agent: Agent, tool_names: Sequence[str], limit_chars: int) -> tuple[str, ...]:
    """The agent's one text; unless plain, with the names of its first tools."""
    text = _title_text(agent.name, stated_text(agent.description))
    if form != "plain" and tool_names:
        text = f"{text.rstrip().removesuffix('.')}. Tools: {', '.join(tool_names[:TOOL_NAMES_SHOWN])}"
    return (text[:limit_chars],)


def parameter_text(schema: JsonText) -> str:
    """`city (name of the city), limit` from the parameters, however its top composes them; at most MAX_PARAMETERS.

    A schema without any, or one that is not a schema at all, gives an empty text; so does what every skill of
    an A2A agent takes.
    """
    return "" if schema == SKILL_MESSAGE else ", ".join(islice(_parameters(schema), MAX_PARAMETERS))


def unit_mean(matrix: Matrix, lengths: Sequence[int], weights: Sequence[float] | None = None) -> Matrix:
    """The mean of each group of neighbouring rows, scaled to length 1; with a weight a row, ScaleMCP's Equation 1.

    `matrix` is of shape (sum of lengths, dimension), the result of shape (len(lengths), dimension), both float32. An
    empty group, and one whose rows cancel out, gives zeros. Weights need not add up to 1.
    """
    import numpy as np

    if weights is not None:
        matrix = matrix * np.asarray(weights, dtype=np.float32)[:, None]
    counts = np.asarray(lengths, dtype=np.intp)
    is_filled = counts > 0
    sums = np.zeros((len(counts), matrix.shape[1]), dtype=np.float32)
    if is_filled.any():
        sums[is_filled] = np.add.reduceat(matrix, (np.cumsum(counts) - counts)[is_filled], axis=0)
    return unit_rows(sums)


def _title_text(name: str, description: str) -> str:
    return f"{name}: {description}" if description.strip() else name


def _parameters(schema: JsonText) -> Iterator[str]:
    for name, parameter in parameters_of_text(schema).properties.items():
        description = parameter.get("description") if isinstance(parameter, dict) else None
        words = " ".join(description.split()) if isinstance(description, str) else ""
        yield f"{name} ({words})" if words else name


# What is read of a query: no pasted files, and of literal values what kind of thing they are. Pure.
#
# A URL, a path or an address is a value that some parameter takes. Its letters speak of anything but who could take it:
# `/home/ann/weather/list.csv` is no request for a forecast. What counts is that there is a file, and that it is a
# table.


DATA_URI = re.compile(r"data:[\w/+.-]{0,100}(?:;[\w=.-]{1,100}){0,5};base64,[A-Za-z0-9+/=_-]*", re.ASCII)
BLOB = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
"""Base64 or hex of a file that someone pasted: no words."""

_URL = re.compile(
    r"""(?<![a-z0-9])(?:https?|ftp|wss?)://
    (?:[\w.~%!$&'*+=:\-]{1,200}@)?                      # who, and perhaps a password
    (?:www\.)?([a-z0-9.\-]+(?::\d{1,5})?)               # the host; of ASCII, as are paths: 例 begins the next word
    (?:[/?#](?:[\w.~:/?#\[\]@!$&'()*+=%\-]*[\w/=&%\#+\-])?)?  # without the sentence's own punctuation
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_ROLE = re.compile(r"^[ \t]*(user|assistant|system|tool)[ \t]*:", re.IGNORECASE | re.MULTILINE)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+@(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}\b(?![:/])", re.IGNORECASE)
_FILE = re.compile(r"(?<![\w:/.~])(?:~|\.{0,2})(?:/[\w.\-+@%]{1,255}){1,64}+|(?<!\w)[A-Za-z]:\\[^\s\"'<>|]{1,1000}")
_EXTENSION = re.compile(r"\.([A-Za-z]\w{0,4})$")
_UUID = r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
_IDENTITY = re.compile(rf"{_UUID}|\b(?=[a-f]{{0,64}}\d)[0-9a-f]{{16,64}}\b", re.IGNORECASE)
_SHORTEST_IDENTITY = 16


def query_text(text: str, *, literals: bool = False) -> str:
    """The query without pasted files (data URIs, base64 or hex of 200 characters or more), blanks collapsed.

    A URL becomes its host and `web page`, the path of a file `file` and its extension, an e-mail address `email
    address`, a UUID or a long hexadecimal number `ID`, and a dialogue what its user says; with `literals` all stay as
    they are.
    """
    text = BLOB.sub(" ", DATA_URI.sub(" ", text))
    text = text if literals else _user_turns(text)
    return " ".join((text if literals else _kinds(text)).split())


def _user_turns(text: str) -> str:
    """Of a text that is a dialogue: it begins with a role, and marks turns of the user and of the assistant."""
    if "ssistant" not in text and "ASSISTANT" not in text:
        return text
    before, *parts = _ROLE.split(text)
    turns = list(zip(map(str.casefold, parts[::2]), parts[1::2], strict=True))
    if before.strip() or not {"user", "assistant"} <= {role for role, _ in turns}:
        return text
    words_of_user = " ".join(words for role, words in turns if role == "user")
    return words_of_user if words_of_user.strip() else text


def is_latin(text: str) -> bool:
    """Whether half of its letters or more are Latin, as in a text without letters."""
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters)
    return 2 * latin >= len(letters)


def _kinds(text: str) -> str:
    # Most queries hold none of these: a sign that each must have is looked for first.
    if "://" in text:
        text = _URL.sub(r" \1 web page ", text)
    if "@" in text:
        text = _EMAIL.sub(" email address ", text)
    if "/" in text or "\\" in text:
        text = _FILE.sub(_file, text)
    longest = max(map(len, text.split()), default=0)
    return _IDENTITY.sub(" ID ", text) if longest >= _SHORTEST_IDENTITY else text


def _file(path: re.Match[str]) -> str:
    """A path without extension stays: it may be a folder, or the name of an operation, as in OpenAPI."""
    # A sentence may end behind it.
    extension = _EXTENSION.search(path.group().rstrip(".,;:"))
    return f" file {extension.group(1)} " if extension else path.group()


_KEY_CHARS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForms:
    """How entities become texts: the form, and how much of a text is worth embedding."""

    form: TextForm
    max_chars: int

    def of_entries(self, entries: Iterable[AgentEntry]) -> dict[str, Parts]:
        """Entity id → its texts, the unit mean of whose vectors is the entity's vector."""
        parts: dict[str, Parts] = {}
        for entry in entries:
            parts |= self.of_agent(entry.agent, entry.tools)
        return parts

    def of_agent(self, agent: Agent, tools: Sequence[Tool]) -> dict[str, Parts]:
        # A tool that waits for approval must not route to its agent either.
        names = [tool.name for tool in tools if not tool.pending]
        own = {agent.id: Parts(agent_texts(self.form, agent, names, self.max_chars))}
        return own | {tool.id: tool_parts(self.form, agent, tool, self.max_chars) for tool in tools}


def new_vectors(
    parts: Mapping[str, Parts], held_keys: Mapping[str, str], embedder: Embedder, progress: Progress | None = None
) -> "NewVectors":
    """Vectors of the entities whose key differs from the one held."""
    from waygraph.registry.graph.write import NewVectors

    keys = {entity: _key(embedder.fingerprint, whole) for entity, whole in parts.items()}
    new_entities = [entity for entity in parts if keys[entity] != held_keys.get(entity)]
    return NewVectors(vectors=_embed(new_entities, parts, embedder, progress), keys=keys)


def _key(fingerprint: str, parts: Parts) -> str:
    """Another for every other embedder, text or weight."""
    weights = (f"weights {parts.weights}",) if parts.weights else ()
    return digest(fingerprint, *parts.texts, *weights)[:_KEY_CHARS]


def no_vectors(texts: Iterable[str]) -> "NewVectors":
    """Takes the vector of every entity away."""
    from waygraph.registry.graph.write import NewVectors

    return NewVectors(vectors=dict.fromkeys(texts), keys={})


ENTITIES_AT_ONCE = 700
"""Of so many the texts, some 2,000, are embedded at a time: these have vectors of their own, held no longer."""
VECTOR_BYTES_HELD = 16 * 1024 * 1024
"""Of one write; more of them wait for it in a temporary file."""


class SpooledVectors(Mapping[str, "Vector"]):
    """By entity id, float32 of shape (dimension,). Raises StorageFailed where the temporary file cannot be used."""

    def __init__(self) -> None:
        self._row_bytes, self._rows = 0, dict[str, int]()
        self._file = SpooledTemporaryFile(VECTOR_BYTES_HELD)  # noqa: SIM115 - it lasts as long as this
        weakref.finalize(self, self._file.close)

    def append(self, entities: Sequence[str], matrix: Matrix) -> None:
        """`matrix`: float32 of shape (len(entities), dimension). Before any is read."""
        self._row_bytes = 4 * matrix.shape[1]
        self._rows.update(zip(entities, range(len(self), len(self) + len(entities)), strict=True))
        try:
            self._file.write(matrix.tobytes())
            self._file.flush()
        except OSError as exc:
            raise StorageFailed(f"vectors cannot be kept in a temporary file: {exc.strerror}") from exc

    def __getitem__(self, entity: str) -> Vector:
        import numpy as np

        row = self._rows[entity]
        try:
            self._file.seek(row * self._row_bytes)
            return np.frombuffer(self._file.read(self._row_bytes), np.float32)
        except OSError as exc:
            raise StorageFailed(f"vectors cannot be read from a temporary file: {exc.strerror}") from exc

    def __contains__(self, entity: object) -> bool:
        return entity in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _embed(
    entities: Sequence[str], parts: Mapping[str, Parts], embedder: Embedder, progress: Progress | None
) -> SpooledVectors:
    """Each text once."""
    import numpy as np

    to_come = Counter(text for entity in entities for text in parts[entity].texts)
    total, start = len(to_come), 0
    vectors, again = SpooledVectors(), dict[str, "Vector"]()
    for some in batched(entities, ENTITIES_AT_ONCE):
        texts = [text for entity in some for text in parts[entity].texts]
        to_come.subtract(texts)
        new = [text for text in dict.fromkeys(texts) if text not in again]
        rows = dict(again)
        if new:
            part_progress = shift_progress(progress, start, total)
            matrix = embedder.embed(list(map(replace_surrogates, new)), "document", progress=part_progress)
            rows |= zip(new, matrix, strict=True)
        weights = [share for entity in some for share in parts[entity].shares]
        matrix = np.stack([rows[text] for text in texts]) if texts else np.zeros((0, embedder.dimension), np.float32)
        vectors.append(some, unit_mean(matrix, [len(parts[entity].texts) for entity in some], weights))
        again = {text: rows[text].copy() for text in rows if to_come[text]}
        start += len(new)
    return vectors
