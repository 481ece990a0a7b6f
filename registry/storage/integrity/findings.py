"""What checks say, and the checks that every registry shares."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import islice
from typing import Any

import numpy as np

from waygraph.cypher import load
from waygraph.registry.embedding.embedder import Matrix, parse_spec
from waygraph.registry.embedding.texts import Parts, TextForms, is_latin, new_vectors
from waygraph.registry.embedding.weights import locate, read_languages, vectors_advice
from waygraph.registry.graph.contents import Contents, GraphNoun
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import RegistryState, read_state
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.changes import AgentEntry, entries_of
from waygraph.registry.model.errors import RegistryError, RegistryNotFound, WaygraphError
from waygraph.registry.model.identity import sealed_agent, sealed_tool, tool_id
from waygraph.registry.model.nouns import name_undescribed
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tool_settings import overlay_entries
from waygraph.registry.model.validation import is_form
from waygraph.registry.routing.answering import NO_VECTORS
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.noun_list import NOUNS, count_subjects

_CHECK_ORPHANS = load("check/orphans")


LIBRARIES = ("grafeo", "pystemmer", "numpy")
ON_REQUEST = ("neo4j", "onnxruntime")
"""Of extras and of the model's package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check saw. `advice` is one line, empty where nothing is to be done."""

    check: str
    ok: bool
    detail: str
    advice: str = ""


def restore_advice(place: str) -> str:
    """What is left when the graph itself cannot be trusted."""
    return f"restore {place} from a copy, or ingest an export into a new registry"


def versions() -> Finding:
    """Of Waygraph, the engine and the libraries that carry it; not well if one is missing or not the pinned one."""
    present = {name: _version(name) for name in ("waygraph", *LIBRARIES, *ON_REQUEST)}
    requirements = requires("waygraph") if present["waygraph"] else None
    pins = [line.partition("==") for line in requirements or () if "==" in line.partition(";")[0]]
    wrong = [f"{name} {wants} wanted" for name, _, wants in pins if name in present and present[name] != wants]
    missing = [f"{name} is missing" for name, number in present.items() if not number and name not in ON_REQUEST]
    return Finding(
        check="versions",
        ok=not wrong and not missing,
        detail=", ".join([*(f"{name} {number}" for name, number in present.items() if number), *wrong, *missing]),
        advice="install waygraph anew, with the versions that it asks for" if wrong or missing else "",
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


MULTILINGUAL = (
    "take a model of more languages: `waygraph model pull multilingual`, `waygraph --embedder multilingual reindex`"
)
_UNREAD_SHARE = 0.05
"""Of a catalogue's texts, that is worth telling."""


def shared_findings(registry: LocalRegistry) -> list[Finding]:
    """Those of sources, of the embedder and of versions."""
    return [*source_findings(registry), embedder_finding(registry), versions()]


def describe_index(index: SearchIndex) -> str:
    """Its revision and what it holds. Raises RegistryError if its texts are of a form that is not known."""
    state = index.state
    if not is_form(state.texts):
        raise RegistryError(f"texts of the form {state.texts!r} are not known")
    return (
        f"revision {state.revision}: {state.agents} agents, {state.tools} tools, "
        f"{len(index.sources())} sources, {state.texts} texts"
    )


def absent(place: str) -> Finding:
    return Finding(
        check="registry",
        ok=False,
        detail=f"there is no registry at {place}",
        advice="create one with `waygraph ingest SOURCE`",
    )


def embedder_finding(registry: LocalRegistry) -> Finding:
    """Whether queries become vectors as the registry's texts did."""
    try:
        notice = registry.notice
        state = registry.status().state
    except WaygraphError as error:
        return Finding(check="embedder", ok=False, detail=str(error), advice="see what the other findings advise")
    if not notice:
        unread = _unread(registry, state.embedder_spec)
        detail = f"{state.embedder}; {unread}" if unread else state.embedder
        return Finding(check="embedder", ok=True, detail=detail, advice=MULTILINGUAL if unread else "")
    is_choice = "none" in (state.embedder_spec, registry.settings.embedder)
    if is_choice:
        advice = ""
    elif state.embedder:
        advice = "get this model, or embed all texts with another: `waygraph --embedder NAME reindex`"
    else:
        notice, advice = NO_VECTORS, vectors_advice(registry.settings)
    return Finding(check="embedder", ok=is_choice, detail=notice, advice=advice)


def _unread(registry: LocalRegistry, spec: str) -> str:
    """How much of the catalogue is in scripts that the model does not know; empty where it is little, or unknown."""
    try:
        if parse_spec(spec).scheme != "onnx" or read_languages(locate(spec, registry.settings)) == "multilingual":
            return ""
        tools = registry.tools()
        texts = [f"{agent.name} {agent.description}" for agent in registry.agents()]
        texts += [text for tool in tools for text in (f"{tool.name} {tool.description}", *tool.questions)]
        share = sum(not is_latin(text) for text in texts) / max(len(texts), 1)
    except DAMAGE:  # other checks tell it
        return ""
    return f"it does not know the script of {share:.0%} of the texts" if share >= _UNREAD_SHARE else ""


def attempt(check: str, look: Callable[[], str], advice: str) -> Finding:
    """The finding of a look that raises if something is wrong, damaged bytes included."""
    try:
        return Finding(check=check, ok=True, detail=look())
    except RegistryNotFound as error:
        return Finding(check=check, ok=False, detail=str(error), advice="open the registry again: that publishes it")
    except DAMAGE as error:
        return Finding(check=check, ok=False, detail=str(error) or type(error).__name__, advice=advice)


DAMAGE = (WaygraphError, OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError)
"""What reading damaged files and graphs leads to."""


NORM_TOLERANCE = 1e-3
_MOST_EXAMPLES = 5
ANY_CHANGE = "any change mends what is missing, such as `waygraph set AGENT --tag NAME`"
AGAIN = "ingest its source again after `waygraph sources remove NAME`, or restore the graph from a copy"
FORGET = "run `waygraph learn remove`, and learn anew"
REINDEX = "run `waygraph reindex`"


class Graph(Contents):
    """What the graph holds, and the texts that its vectors should be of."""

    def __init__(self, session: GraphSession, limits: Settings) -> None:
        super().__init__(session)
        self.limits = limits

    @cached_property
    def state(self) -> RegistryState:
        if (state := read_state(self.session)) is None:
            raise RegistryError("the graph has no Registry node")
        return state

    @cached_property
    def entries(self) -> list[AgentEntry]:
        return entries_of((item.agent for item in self.agents.values()), (item.tool for item in self.tools))

    @cached_property
    def texts(self) -> dict[str, Parts]:
        """Entity id → the texts that its vector is of."""
        return TextForms(form=self.state.texts, max_chars=self.limits.max_embedded_chars).of_entries(
            overlay_entries(self.entries, self.settings)
        )


_NAMED_FAILURES = 20
MEND_SOURCES = "mend what the reason says and ingest the source again, or take the entry out of the source"


def source_findings(registry: LocalRegistry) -> list[Finding]:
    """Whether all that sources list which ever gave anything could be read and asked. What cannot be read here is told
    by other checks.
    """
    try:
        failures = [each for source in registry.sources() for each in source.failures]
    except DAMAGE:
        return []
    if not failures:
        return [Finding(check="sources", ok=True, detail="nothing of them fails, as far as it was tried")]
    lines = [
        f"{each.key or 'the source itself'} of {each.source} fails since {each.since}: {each.reason}"
        for each in failures[:_NAMED_FAILURES]
    ]
    more = [f"and {len(failures) - _NAMED_FAILURES} more"] if len(failures) > _NAMED_FAILURES else []
    return [Finding(check="sources", ok=False, detail="; ".join([*lines, *more]), advice=MEND_SOURCES)]


def graph_findings(graph: Graph, restore: str) -> Iterator[Finding]:
    """One of each check; `restore` is the advice where the graph itself cannot be trusted."""
    for check, faults, sound, advice in (
        ("agent hashes", _agent_hashes, "each agent is what its source said", AGAIN),
        ("tool hashes", _tool_hashes, "each tool is what its source said", AGAIN),
        ("bundle hashes", _bundle_hashes, "each agent has the tools its source said", AGAIN),
        ("owners", _owners, "each tool has one owner", restore),
        ("claims", _claims, "each agent has a source", restore),
        ("call names", _call_names, "no two tools share one", restore),
        ("transitions", _transition_faults, "each counts something, and has a date", FORGET),
        ("subjects", _subject_faults, "changes and settings have edges to what they are about", ANY_CHANGE),
        ("removed agents", _check_removed, "none is there", "run `waygraph remove AGENT` for each"),
        ("vectors", _vector_faults, "each is of length 1", REINDEX),
        ("vector keys", _vector_key_faults, "each vector is of the present text", REINDEX),
    ):
        yield attempt(check, unless(partial(faults, graph), sound), advice)
    yield attempt("descriptions", partial(_look_at_descriptions, graph), restore)
    for noun in NOUNS:
        yield attempt(noun.name, partial(_look_at, noun, graph), noun.advice)


def _look_at_descriptions(graph: Graph) -> str:
    """An agent without one is found by its tools alone, which is no fault."""
    return name_undescribed([item.agent for item in graph.agents.values()]) or "each agent states one"


def _look_at(noun: GraphNoun[Any], graph: Graph) -> str:
    """Raises RegistryError."""
    refuse(noun.faults(graph))
    return noun.sound(graph)


def unless(faults: Callable[[], Iterable[str]], sound: str) -> Callable[[], str]:
    """What tells `sound`, or raises for the faults."""

    def look() -> str:
        refuse(faults())
        return sound

    return look


def refuse(faults: Iterable[str]) -> None:
    """Raises RegistryError that names the first faults and counts them all."""
    if messages := list(faults):
        more = f" and {len(messages) - _MOST_EXAMPLES} more" if len(messages) > _MOST_EXAMPLES else ""
        raise RegistryError(", ".join(islice(messages, _MOST_EXAMPLES)) + more)


def _agent_hashes(graph: Graph) -> Iterator[str]:
    for agent_id, item in graph.agents.items():
        if sealed_agent(item.agent).content_hash != item.agent.content_hash:
            yield agent_id


def _tool_hashes(graph: Graph) -> Iterator[str]:
    for item in graph.tools:
        tool = item.tool
        if sealed_tool(tool) != tool or tool.id != tool_id(tool.agent_id, tool.name):
            yield tool.id


def _bundle_hashes(graph: Graph) -> Iterator[str]:
    for entry, item in zip(graph.entries, graph.agents.values(), strict=True):
        if entry.bundle_hash != item.bundle_hash:
            yield entry.agent.id


def _owners(graph: Graph) -> Iterator[str]:
    owners = Counter(item.tool.id for item in graph.tools)
    yield from (f"{tool} has {number} owners" for tool, number in owners.items() if number > 1)
    yield from (f"{tool} has no owner" for tool in _orphans(graph, "tool"))
    tools = [item.tool for item in graph.tools]
    yield from (f"{tool.id} has an owner without id" for tool in tools if tool.agent_id not in graph.agents)
    counts = graph.counts
    if not (counts["tools"] == counts["owns"] == len(owners)):
        yield f"{counts['tools']} tools, {counts['owns']} owned"


def _claims(graph: Graph) -> Iterator[str]:
    yield from (f"{agent} is claimed by no source" for agent in _orphans(graph, "agent"))
    twice = Counter((claim.source, claim.agent_id) for claim in graph.claims)
    yield from (f"{source} claims {agent} {number} times" for (source, agent), number in twice.items() if number > 1)
    twice_keyed = Counter((claim.source, claim.key) for claim in graph.claims)
    yield from (f"{source} claims {key!r} as {n} agents" for (source, key), n in twice_keyed.items() if n > 1)


def _orphans(graph: Graph, kind: str) -> list[str]:
    return sorted(row["id"] for row in graph.session.run(_CHECK_ORPHANS) if row["kind"] == kind)


def _call_names(graph: Graph) -> Iterator[str]:
    bearers = Counter(item.tool.call_name for item in graph.tools)
    return (f"{name!r} is of {number} tools" for name, number in bearers.items() if number > 1)


def _subject_faults(graph: Graph) -> Iterator[str]:
    edges, subjects = graph.counts["subjects"], count_subjects(graph)
    if edges != subjects:
        yield f"{edges} edges of changes and settings for {subjects} that they are about"


def _check_removed(graph: Graph) -> Iterator[str]:
    return (
        setting.agent_id for setting in graph.settings.values() if setting.removed and setting.agent_id in graph.agents
    )


def _transition_faults(graph: Graph) -> Iterator[str]:
    return (f"{each.first or 'the beginning'} → {each.next}" for each in graph.transitions if not each.is_sound)


def _vector_faults(graph: Graph) -> Iterator[str]:
    if not graph.state.embedder:
        yield from (f"{entity} has one though no embedder is recorded" for entity in graph.vectors)
        return
    dimensions = Counter(len(vector) for vector in graph.vectors.values())
    common = dimensions.most_common(1)[0][0] if dimensions else 0
    for entity, parts in graph.texts.items():
        if (vector := graph.vectors.get(entity)) is None:
            yield f"{entity} has none"
        elif len(vector) != common:
            yield f"{entity} has {len(vector)} numbers, not {common}"
        elif abs((length := float(np.linalg.norm(vector))) - 1.0) > NORM_TOLERANCE and (
            vector.any() or any(map(str.strip, parts.texts))
        ):
            yield f"{entity} is of length {length:.4g}"


def _vector_key_faults(graph: Graph) -> Iterator[str]:
    """Of tools: whether each vector was made of the texts and by the embedder that the registry now records.

    Of agents only whether there is one: earlier versions listed tool names in their text in the order of the source,
    which the graph does not keep.
    """
    keys = new_vectors(graph.texts, {}, _KeyEmbedder(graph.state.embedder)).keys if graph.state.embedder else {}
    tools = {item.tool.id for item in graph.tools}
    for entity, key in graph.vector_keys.items():
        right_key = keys.get(entity, "")
        if bool(key) != bool(right_key) or (entity in tools and key != right_key):
            yield entity


class _KeyEmbedder:
    """Stands in for the embedder that made the vectors: its name is all that keys need, so no model is."""

    dimension = 1

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def embed(self, texts: object, role: object, *, progress: object = None) -> Matrix:  # noqa: ARG002
        return np.zeros((len(list(texts)), 1), dtype=np.float32)  # type: ignore[call-overload]
