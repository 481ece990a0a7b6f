"""Seeded worlds: sources whose catalogues share agents, what befalls a registry of them, and what it is asked.

Edits and questions are values: the same seed gives the same ones in the same order, to any number of registries.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import cycle
from typing import Any

from benchmarks.catalogue import catalogue, requests
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import Reading, list_stream, read_listing
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.search_index import Scope
from waygraph.registry.model.changes import OperatorSettings, Policy
from waygraph.registry.model.identity import agent_id, namespaced_id
from waygraph.registry.model.nouns import AGENT_KINDS, AgentKind, Filters, Principal, TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry

Record = dict[str, Any]
"""An agent as a catalogue writes it."""

SOURCES = ("alpha", "beta/with path", "γάμμα")
LIVE = "live"
"""A source of rank 1: its word counts before that of the others."""

GROUPS = ("red", "green", "blue team", "größe")
TAGS = ("sea", "land", "air & space", "海")
KEYS = (
    "查询天气", "mcp/server/files", "true", "1", "01", "Case", "case", "io.github.someone/tool-server", "with space",
    "null", "harborGit", "Ünïcode", "x" * 128, "-leading", "a.b_c-d",
)  # fmt: skip
"""Of agents; a source's own, not all of them legal ids."""
NAMES = (
    "查询天气", "予定を追加する", "항구-목록", "getHTTPResponseCode2", "files/read/all", "list_pull_requests", "search",
    "true", "null", "1", "01", "Übergröße prüfen", "moor 🚢", "\uff21\uff22", "𠮷野家", "__init__", "don't", "{$id}",
    "a-b.c:d", " padded ", "*", "AND OR NOT", "a" * 128, "ǅungla", "ﬁle", "createIssue", "create_issue", "__",
)  # fmt: skip
"""Of tools and agents; the last ones but one fold to the same name, one folds to none."""
DESCRIPTIONS = (
    "", " ", "\x00\x1b[2J", "\u202eabc\u202c", "🚢" * 40, "查询天气预报和空气质量", "港の予定を調べる", "x" * 5_000,
    "'}) DETACH DELETE n //", "a\tb\nc\u2028d", "The of and", "renameFileInFolder get_weather_forecast HTTPServer",
    "Straße, naïve, ﬁle, ②", "ميناء السفن",
)  # fmt: skip
SCHEMAS: tuple[Record, ...] = (
    {},
    {"type": "object"},
    {"type": "object", "properties": {"city": {"type": "string", "description": "Name of the city"}}},
    {"type": "object", "properties": {"都市": {"type": "string"}, "HTTPHeader": {"default": 1.5e300}, "n": {}}},
    {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"deep": {"enum": [None, 0, -1, True, "x"]}}},
)
ANNOTATIONS: tuple[Record | None, ...] = (None, {"readOnlyHint": True}, {"title": "题"})
STATUSES = ("known", "online", "unreachable since 2026-01-01T00:00:00+00:00: no route", "failing: 500")
GIBBERISH = (
    "qwxzv jjkkq zzyxw", "the of and", "?!", "\x00", "🚢🚢", '"unclosed AND (title:* ~5 ^2 [a TO b]', "\ud800 half",
    "data:text/plain;base64,AAAA", "*", "a" * 400, "/", "__", "ﬁle ②",
)  # fmt: skip
CJK = ("天气", "查询天气预报", "予定", "港の予定を調べる", "항구", "𠮷野家", "海", "今天 weather 怎么样")


@dataclass(frozen=True)
class Edit:
    """Something done to a registry: what it says is to be the same wherever it is done."""

    told: str
    do: Callable[[LocalRegistry], object]


@dataclass(frozen=True)
class Question:
    """What an index is asked, `depth` hits of each leg."""

    text: str
    scope: Scope
    depth: int


class Author:
    """Writes agents and tools as catalogues state them, a good part of them odd."""

    def __init__(self, chance: random.Random, *, tools: int) -> None:
        """`tools`: of an agent, at most."""
        self._chance, self._most = chance, tools
        seed = chance.randrange(2**32)
        self._agents: Iterator[Record] = cycle(catalogue(2_000, seed)["agents"])
        self.requests = requests(200, seed)

    def agent(self) -> Record:
        made = deepcopy(next(self._agents))
        made["id"] = self._sometimes(KEYS, made["id"])
        made["name"] = self._sometimes(NAMES, made["name"])
        made["description"] = self._sometimes(DESCRIPTIONS, made["description"])
        made["tools"] = [self.tool(like) for like in made["tools"][: self._chance.randrange(self._most + 1)]]
        made["kind"] = self._chance.choice(AGENT_KINDS)
        made["version"] = self._chance.choice(("", "1.0", "2026-01-01"))
        made["transport"] = self.transport(made["id"])
        made["tags"] += self.some(TAGS)
        made["visible_to"] = self.some(GROUPS) if self._chance.random() < 0.3 else []
        return made

    def tool(self, like: Record | None = None) -> Record:
        made = dict(like or self._chance.choice(next(self._agents)["tools"]))
        made["name"] = self._sometimes(NAMES, made["name"])
        made["description"] = self._sometimes(DESCRIPTIONS, made["description"])
        made["inputSchema"] = self._sometimes(SCHEMAS, made["inputSchema"])
        made["outputSchema"] = self._sometimes(SCHEMAS, None)
        made["annotations"] = self._chance.choice(ANNOTATIONS)
        made["tags"] = self.some(TAGS)
        return made

    def transport(self, key: str) -> Record | None:
        """None, one that tells agents apart, or one whose references do not."""
        return self._chance.choice(
            (
                None,
                {"type": "http", "url": f"https://host{len(key)}.example/{key[:8]}"},
                {"type": "stdio", "command": "npx", "args": ["-y", key], "env": {"TOKEN": "${TOKEN}"}},
                {"type": "http", "url": "https://gateway.example/mcp"},
            )
        )

    def some(self, names: tuple[str, ...]) -> list[str]:
        return self._chance.sample(names, self._chance.randrange(3))

    def rewritten(self, record: Record) -> Record:
        """The same agent with one thing changed."""
        change = self._chance.choice((self._text, self._lists, self._launch, self._more, self._fewer, self._one_tool))
        return change(deepcopy(record))

    def _text(self, record: Record) -> Record:
        field_name = self._chance.choice(("name", "description"))
        return record | {field_name: self._chance.choice(NAMES if field_name == "name" else DESCRIPTIONS)}

    def _lists(self, record: Record) -> Record:
        return record | {"tags": self.some(TAGS), "visible_to": self.some(GROUPS)}

    def _launch(self, record: Record) -> Record:
        kind, version = self._chance.choice(AGENT_KINDS), str(self._chance.random())
        return record | {"transport": self.transport(record["id"]), "kind": kind, "version": version}

    def _more(self, record: Record) -> Record:
        return record | {"tools": [*record["tools"], self.tool()]}

    def _fewer(self, record: Record) -> Record:
        """Often none at all: then the agent is a capability itself."""
        return record | {"tools": record["tools"][: self._chance.choice((0, 1))]}

    def _one_tool(self, record: Record) -> Record:
        for tool in record["tools"][:1]:
            tool.update(self.tool(tool), name=self._chance.choice((tool["name"], self._chance.choice(NAMES))))
        return record

    def _sometimes[T](self, odd: tuple[T, ...], usual: T) -> T:
        return self._chance.choice(odd) if self._chance.random() < 0.25 else usual


@dataclass
class World:
    """What the sources say now, and what happens next. Iterate `edits` to its end before another world's."""

    seed: int
    agents: int = 12
    """Of each source, at first."""
    tools: int = 6
    """Of each agent, at most."""
    forms: tuple[TextForm, ...] = ("plain", "contextual")
    sources: dict[str, dict[str, Record]] = field(default_factory=dict)
    """Source → its key → what it says of that agent."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 - not a secret
        self._author = Author(self._chance, tools=self.tools)

    # -- edits -------------------------------------------------------------------------------------

    def edits(self, extra: int) -> Iterator[Edit]:
        """A rehearsal where nothing is yet, each source for the first time, each kind of edit once, and `extra`."""
        self._found(SOURCES[0])
        yield self._sync(SOURCES[0], "a rehearsal of the first", dry_run=True)
        for source in (*SOURCES, LIVE):
            self._found(source)
            yield self._sync(source, "for the first time")
        kinds = self._kinds()
        self._chance.shuffle(kinds)
        for kind in [*kinds, *self._chance.choices(kinds, k=extra)]:
            yield kind()

    def _kinds(self) -> list[Callable[[], Edit]]:
        of_sources = [
            self._change, self._change, self._change, self._share, self._same_again, self._rehearse, self._spoil,
            self._lose_most, self._lose_most_as_meant, self._state_settings, self._ask_for_texts, self._forget,
            self._hold, self._hold, self._loosen, self._answer,
        ]  # fmt: skip
        of_operators = [
            self._remove, self._remove, self._bring_back, self._tag, self._restrict, self._open, self._pin, self._hide,
            self._show, self._approve, self._approve, self._approve_all,
        ]  # fmt: skip
        return [*of_sources, *of_operators, self._reindex]

    def _found(self, source: str) -> None:
        """Its agents: new ones, and some that other sources have, word for word."""
        new = [self._author.agent() for _ in range(self.agents)]
        shared = [deepcopy(record) for records in self.sources.values() for record in list(records.values())[:2]]
        self.sources[source] = {record["id"]: record for record in (*new, *shared)}

    def _change(self) -> Edit:
        """Some agents say something else, some go, some come."""
        records = self._one()[1]
        for key in self._keys_of(records, 4):
            records[key] = self._author.rewritten(records[key])
        for key in self._keys_of(records, self._chance.randrange(3)):
            del records[key]
        for _ in range(self._chance.randrange(3)):
            made = self._author.agent()
            records[made["id"]] = made
        return self._sync_last("changed")

    def _share(self) -> Edit:
        """Lists agents of another source too: as they are there, or differently under the same key."""
        source, records = self._one()
        others = [record for name, listed in self.sources.items() if name != source for record in listed.values()]
        for record in self._chance.sample(others, min(4, len(others))):
            told = deepcopy(record)
            records[record["id"]] = self._author.rewritten(told) if self._chance.random() < 0.5 else told
        return self._sync_last("with agents of others")

    def _same_again(self) -> Edit:
        self._one()
        return self._sync_last("once more")

    def _rehearse(self) -> Edit:
        """Of what will not come to pass."""
        source, records = self._one()
        before = dict(records)
        self._change()
        edit = self._sync(self._last, "a rehearsal", dry_run=True, allow_mass_removal=self._chance.random() < 0.5)
        self.sources[source] = before
        return edit

    def _spoil(self) -> Edit:
        """Lists what cannot be read, some of it without a key: nothing may be taken for gone."""
        source, records = self._one()
        for key in self._keys_of(records, 1):
            records[key] = records[key] | {"kind": "teapot"}
        bad: list[Record] = [{"name": "no id"}, {"id": "overlong", "tools": [{"name": "n" * 200}]}]
        edit = self._sync(source, "with bad records", bad)
        for key in self._keys_of(records, 1):
            records[key] = self._author.agent() | {"id": key}
        return edit

    def _lose_most(self) -> Edit:
        """Refused, unless the source has next to nothing; the source thinks better of it."""
        source, records = self._one()
        manifest = self._manifest(source, dict(list(records.items())[: len(records) // 4]))
        return Edit(f"sync {source}: most are gone", lambda registry: sync(registry, manifest))

    def _lose_most_as_meant(self) -> Edit:
        source, records = self._one()
        for key in self._keys_of(records, len(records) * 3 // 4):
            del records[key]
        return self._sync(source, "most are gone, as meant", allow_mass_removal=True)

    def _state_settings(self) -> Edit:
        """As an export does that is restored: what operators said comes with it."""
        source, records = self._one()
        said = tuple(
            OperatorSettings(
                agent_id=agent_id(key),
                tags=tuple(sorted(self._author.some(TAGS))),
                visible_to=self._chance.choice((None, ("red",))),
                pinned=self._chance.random() < 0.3,
                removed=self._chance.random() < 0.3,
            )
            for key in self._keys_of(records, 3)
        )
        manifest = replace(self._manifest(source, records), operator=said)
        return Edit(f"sync {source}: with operators' words", lambda registry: sync(registry, manifest))

    def _ask_for_texts(self) -> Edit:
        """Refused where the registry has others."""
        source, records = self._one()
        manifest, texts = self._manifest(source, records), self._chance.choice(self.forms)
        return Edit(f"sync {source}: with {texts} texts", lambda registry: sync(registry, manifest, texts=texts))

    def _forget(self) -> Edit:
        """It says the same again one day, if it is chosen."""
        source, _ = self._one()
        return Edit(f"forget {source}", lambda registry: registry.operator.forget(source))

    def _hold(self) -> Edit:
        """What changes from now on waits, or with strict all of it."""
        self._change()
        return self._under(self._chance.choice(("hold", "strict")))

    def _loosen(self) -> Edit:
        self._change()
        return self._under("accept")

    def _under(self, policy: Policy) -> Edit:
        source = self._last
        manifest = replace(self._manifest(source, self.sources[source]), policy=policy)
        return Edit(
            f"sync {source}: under {policy}", lambda registry: sync(registry, manifest, allow_mass_removal=True)
        )

    def _answer(self) -> Edit:
        """Some agents do not answer, or do again."""
        said = {self._some_agent(): self._chance.choice(STATUSES) for _ in range(4)}
        return Edit(f"statuses {said}", lambda registry: registry.put_statuses(said))

    def _approve(self) -> Edit:
        wanted = self._some_agent()
        return Edit(f"approve {wanted}", lambda registry: registry.operator.approve(wanted))

    def _approve_all(self) -> Edit:
        source, _ = self._one()
        return Edit(f"approve all of {source}", lambda registry: registry.operator.approve(f"source:{source}"))

    def _remove(self) -> Edit:
        wanted = self._some_agent()
        return Edit(f"remove {wanted}", lambda registry: registry.operator.remove(wanted))

    def _bring_back(self) -> Edit:
        return self._set(removed=False)

    def _tag(self) -> Edit:
        return self._set(tags=self._author.some(TAGS))

    def _restrict(self) -> Edit:
        """Refused where no group is given."""
        return self._set(visible_to=self._author.some(GROUPS))

    def _open(self) -> Edit:
        return self._set(everyone=True)

    def _pin(self) -> Edit:
        return self._set(pinned=True, tags=["pinned"])

    def _hide(self) -> Edit:
        return self._set(hidden=True)

    def _show(self) -> Edit:
        return self._set(hidden=False, pinned=False)

    def _reindex(self) -> Edit:
        return reindexed(self._chance.choice(self.forms))

    def _set(self, **said: Any) -> Edit:
        wanted = self._some_agent()
        return Edit(f"set {wanted}: {said}", lambda registry: registry.operator.set(wanted, **said))

    def _one(self) -> tuple[str, dict[str, Record]]:
        """A source, and what it says; remembered as the last."""
        self._last = self._chance.choice(list(self.sources))
        return self._last, self.sources[self._last]

    def _keys_of(self, records: Mapping[str, Record], count: int) -> list[str]:
        return self._chance.sample(list(records), min(count, len(records)))

    def _some_agent(self) -> str:
        """An id that there is, most of the time."""
        source, records = self._one()
        key = self._chance.choice([*records, "nobody"])
        return namespaced_id(agent_id(source), key) if self._chance.random() < 0.1 else agent_id(key)

    def _sync_last(self, told: str) -> Edit:
        return self._sync(self._last, told)

    def _sync(self, source: str, told: str, bad: list[Record] | None = None, **options: Any) -> Edit:
        manifest = self._manifest(source, self.sources[source], bad or [])
        return Edit(f"sync {source}: {told}", lambda registry: sync(registry, manifest, **options))

    def _manifest(self, source: str, records: Mapping[str, Record], bad: list[Record] | None = None) -> Manifest:
        document = {"waygraph": 1, "agents": [*records.values(), *(bad or [])]}
        listing = list_stream(BytesIO(json.dumps(document).encode()), Settings().max_source_bytes, source=source)
        [stated] = read_listing(listing, Reading(settings=Settings()))
        return replace(stated, rank=int(source == LIVE))

    # -- questions ---------------------------------------------------------------------------------

    def questions(self, count: int) -> list[Question]:
        return [Question(self._asked(), self._scope(), self._chance.choice((1, 5, 20, 100))) for _ in range(count)]

    def _asked(self) -> str:
        kinds = (
            self._words, self._words, self._name, self._identifier, self._quotation, self._sentence, self._sentence,
            self._foreign,
        )  # fmt: skip
        return self._chance.choice(kinds)()

    def _words(self) -> str:
        told = [str(part[1]) for part in self._texts()]
        words = " ".join(told).split()
        return " ".join(word[:80] for word in self._chance.sample(words, min(len(words), self._chance.randrange(1, 9))))

    def _name(self) -> str:
        return self._chance.choice([name for name, _ in self._texts()])

    def _identifier(self) -> str:
        """Such as `agent/tool`, also under a name that is not its own."""
        agent, tool = self._chance.choice(self._records()), self._author.tool()
        tools = [*agent["tools"], tool]
        return f"call {agent['id']}/{self._chance.choice(tools)['name']} for it"

    def _quotation(self) -> str:
        return f"ask “{self._name()}” or '{self._name()}' {self._sentence()}"

    def _sentence(self) -> str:
        return self._chance.choice(self._author.requests)

    def _foreign(self) -> str:
        return self._chance.choice((*GIBBERISH, *CJK))

    def _records(self) -> list[Record]:
        return [record for records in self.sources.values() for record in records.values()]

    def _texts(self) -> list[tuple[str, str]]:
        """Name and description of a few agents, and of their tools."""
        agents = self._chance.sample(self._records(), 3)
        told = [*agents, *(tool for agent in agents for tool in agent["tools"])]
        return [(str(one["name"]), str(one["description"])) for one in told]

    def _scope(self) -> Scope:
        """Everything to everybody in one of three."""
        if self._chance.random() < 0.33:
            return Scope()
        tags = self._few((*TAGS, "pinned", "no such tag"))
        kinds: tuple[AgentKind, ...] = self._few(AGENT_KINDS)
        agents = self._few(tuple(agent_id(record["id"]) for record in self._records()), 8)
        filters = Filters(
            tags=tags[:1],
            kinds=kinds[:1],
            agent_ids=agents[:4],
            without_tags=tags[1:],
            without_kinds=kinds[1:],
            without_agent_ids=agents[4:],
            reachable=self._chance.random() < 0.2,
        )
        principal = self._chance.choice((None, None, Principal(), Principal(groups=self._few((*GROUPS, "nobody")))))
        return Scope(filters, principal)

    def _few[T](self, values: tuple[T, ...], most: int = 2) -> tuple[T, ...]:
        """None of them in two of three: each filter leaves out much."""
        wanted = self._chance.randrange(1, most + 1) if self._chance.random() < 0.33 else 0
        return tuple(self._chance.sample(values, wanted))


def reindexed(texts: TextForm) -> Edit:
    return Edit(f"reindex with {texts} texts", lambda registry: registry.reindex(texts=texts))
