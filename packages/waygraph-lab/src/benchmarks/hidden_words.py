"""Whether time tells a word that only hidden agents use from one that nobody wrote: pairs of both, in turn.

What is said does not tell them apart (`tests/attack/test_hidden_words.py`).
"""

import random
from collections.abc import Sequence
from functools import partial
from statistics import median

from benchmarks.record import Measure, Result
from benchmarks.timing import CallTime, time_call
from benchmarks.world import World, scratch_folder
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Agent, Principal, Tool
from waygraph.registry.registry import Registry

NAME = "hidden_words"
TOOLS, QUICK_TOOLS, PAIRS, QUICK_PAIRS, HOLDERS = 20_000, 1_000, 2_000, 100, 400
WORD_CHARS = 12
CALLER = Principal(groups=("many",))
NOTES = (
    "Processor time of Registry.route (recipe lexical) in this process, for a caller who sees half of all agents. Each "
    "pair has a word of many hidden tools and one of none; chance says which is asked first.",
    "The ratio is the median over the pairs of time hidden / time absent; beside it that of pairs of two absent words.",
)


def run(world: World) -> Result:
    tools, pairs = (QUICK_TOOLS, QUICK_PAIRS) if world.quick else (TOOLS, PAIRS)
    words = [_word(number) for number in range(4 * pairs)]
    hidden, absent, first, second = (words[part::4] for part in range(4))
    with scratch_folder() as folder, Registry.open(folder / "r.grafeo", embedder="none", environ={}) as registry:
        sync(registry, _manifest(tools, hidden))
        for number in range(20):
            _route(registry, _word(-1 - number))
        ratios = [_ratio(registry, *pair) for pair in zip(hidden, absent, strict=True)]
        same = [_ratio(registry, *pair) for pair in zip(first, second, strict=True)]
    return Result(
        name=NAME,
        measures=[
            Measure(name=f"route, {tools} tools, hidden word / absent word, median", value=median(ratios), unit="×"),
            Measure(name=f"route, {tools} tools, absent word / absent word, median", value=median(same), unit="×"),
        ],
        notes=NOTES,
        details={"pairs": pairs, "hidden tools with each word": min(HOLDERS, tools // 2)},
    )


def _ratio(registry: Registry, first: str, second: str) -> float:
    """Of the time for the first word to that for the second; the order of asking alternates by chance."""
    times: dict[str, CallTime] = {}
    for word in random.Random(first).sample([first, second], 2):  # noqa: S311
        times[word] = time_call(partial(_route, registry, word))
    return times[first].cpu_ms / times[second].cpu_ms


def _route(registry: Registry, word: str) -> object:
    return registry.route(f"look after the harbour {word}", recipe="lexical", principal=CALLER)


def _word(number: int) -> str:
    return "".join(random.Random(number).choices("bdghjkpqvwxz", k=WORD_CHARS))  # noqa: S311


def _manifest(tools: int, hidden: Sequence[str]) -> Manifest:
    """Half of the agents are hidden; each hidden word stands in `HOLDERS` of their tools, or in all."""
    held: list[list[str]] = [[] for _ in range(tools // 2)]
    chance = random.Random(7)  # noqa: S311
    for word in hidden:
        for place in chance.sample(range(len(held)), min(HOLDERS, len(held))):
            held[place].append(word)
    entries = [_entry(f"open-{number}", (), ()) for number in range(tools // 2)]
    entries += [_entry(f"hidden-{number}", words, ("few",)) for number, words in enumerate(held)]
    return Manifest(source=NAME, entries=tuple(entries))


def _entry(key: str, words: Sequence[str], groups: tuple[str, ...]) -> AgentEntry:
    told = f"look after the harbour {key} {' '.join(words)}"
    tool = Tool(id=f"{key}/look", agent_id=key, name="look", description=told)
    return AgentEntry(key=key, agent=Agent(id=key, name=key, description=key, visible_to=groups), tools=(tool,))
