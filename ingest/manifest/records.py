"""From a source's records to a Manifest: the checks and cuts that every source shares.

One bad record costs that record: it becomes a `Rejected` with its place and the reason. A text that is too long
is cut, and the cut is reported.

What one source says now: agents with their tools, and what of it could not be taken.
"""

import json
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeGuard

from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.transport import references_only
from waygraph.registry.access.visibility import MAX_FLAGS
from waygraph.registry.model.changes import AgentEntry, OperatorSettings, Policy, Rejected
from waygraph.registry.model.identity import (
    agent_id,
    copy_text,
    name_fault,
    replace_surrogates,
    sealed_agent,
    sealed_tool,
    tool_id,
)
from waygraph.registry.model.nouns import AGENT_KINDS, CANONICAL, Agent, AgentKind, JsonText, Tool
from waygraph.registry.model.tool_settings import MAX_QUESTION_CHARS, MAX_QUESTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one source says now. `rank`: a live source (1) speaks before a catalogue (0) for a shared agent.

    `partial`: some of the source could not be read, so that what it does not list is not gone for certain.
    """

    source: str
    namespace: str = ""
    rank: int = 0
    entries: tuple[AgentEntry, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    cut: tuple[Rejected, ...] = ()
    partial: bool = False
    operator: tuple[OperatorSettings, ...] = ()
    """What an export says that operators had set."""
    unrestored: int = 0
    """How many of those an export holds that was not asked to restore them."""
    restores: bool = False
    """Whether it is an export that was: what it does not say waits was in routing, whatever the policy."""
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """By kind, such as toolsets: those of an export that are put where the registry has none of the name."""
    gone: tuple[str, ...] = ()
    """Keys of agents that the source says are no more; also a partial one can say so."""
    policy: Policy | None = None
    """None: as it was, and `accept` for a new source."""
    owner: str = ""
    """Of an export: the writer whose source it was; empty: it was the operators'."""
    silent: tuple[tuple[str, str], ...] = ()
    """Of servers that were asked and did not answer as they should: the key, and the status that this gives."""
    is_part: bool = False
    """Whether nothing else of the source was looked at: what failed of the rest still fails."""
    pause_s: int | None = None
    """As the source keeps it: how long a watch waits with the next change. None: as it was."""


MAX_TEXT_CHARS = 1_000_000
"""Of a description, a schema and a transport, each."""
_UNHIDE = "`waygraph set-tool ID --unhide` shows one all the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimit:
    """By what a host keeps tools of a server from its model: the `field` of its file.

    `rules`: patterns of names, each with whether the model is shown such tools; of those that fit the last counts.
    `others`: the same of a tool that none fits. `server`: its tools may stand there under its name, too.
    """

    field: str
    rules: tuple[tuple[str, bool], ...]
    others: bool = True
    server: str = ""

    def shows(self, tool: str) -> bool:
        servers = {self.server, re.sub(r"[^\w-]", "_", self.server)} - {""}
        names = [tool, *(form.format(server, tool) for server in servers for form in _NAMES_WITH_SERVER)]
        grants = [is_shown for pattern, is_shown in self.rules if any(fnmatchcase(name, pattern) for name in names)]
        return grants[-1] if grants else self.others


_NAMES_WITH_SERVER = (
    "{}_{}", "{}__{}", "mcp_{}_{}", "mcp__{}__{}", "mcp__{}", "@{}", "@{}/{}", "{}/{}", "{}:{}", "{}.{}", "{}({})",
    "mcp:{}:{}", "Mcp({}:{})",
)  # fmt: skip
"""How hosts name a tool of a server, or all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """A tool as a source wrote it, unchecked. `pointer` is the JSON pointer of the record in its file."""

    pointer: str
    name: object
    description: object = ""
    input_schema: object = None
    output_schema: object = None
    annotations: object = None
    tags: object = ()
    questions: object = ()
    hide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """An agent as a source wrote it, unchecked."""

    pointer: str
    key: object
    name: object = ""
    description: object = ""
    kind: object = "mcp_server"
    version: object = ""
    transport: object = None
    tags: object = ()
    visible_to: object = ()
    tools: Iterable[ToolRecord] = ()
    limits: tuple[ToolLimit, ...] = ()
    flags: tuple[str, ...] = ()
    """Why texts of it look suspicious that the graph does not keep."""
    asked: bool = True
    """Whether what it lists is all that it offers, or only its server could tell, and was not asked."""


class Refusal(Exception):
    """Why a record cannot be taken; caught where the record is."""


@dataclass(slots=True)
class Intake:
    """Takes the records of one file, keeping what was rejected or cut."""

    where: str
    entries: list[AgentEntry] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    partial: bool = False
    """A part that may hold agents could not be read: what is not listed is not gone for certain."""
    cut: list[Rejected] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Keys of agents that the source says are no more."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    _keys: set[str] = field(default_factory=set)

    def take(self, record: AgentRecord) -> None:
        try:
            entry = self._entry(record)
        except Refusal as refusal:
            key = record.key if isinstance(record.key, str) else ""
            self.reject_agent(record.pointer, str(refusal), key=key)
            return
        if entry.key in self._keys:  # told without the key: that agent is listed
            self.reject(record.pointer, f"agent {entry.key!r} is listed before; the first one is kept")
            return
        self._keys.add(entry.key)
        self.entries.append(entry)

    def reject_agent(self, pointer: str, reason: str, *, key: str = "") -> None:
        """Rejects an agent, or what may hold agents; without a key nobody can say which, and the source is partial."""
        self.partial = self.partial or not key
        self.reject(pointer, reason, key=key)

    def reject(self, pointer: str, reason: str, *, key: str = "") -> None:
        self.rejected.append(Rejected(where=f"{self.where}#{pointer}", reason=reason, key=key))

    def note_cut(self, pointer: str, what: str) -> None:
        """Notes that a record was not taken whole, or not as its format demands."""
        self.cut.append(Rejected(where=f"{self.where}#{pointer}", reason=what))

    def manifest(self, source: str, namespace: str) -> Manifest:
        """All that was taken, under the source's name."""
        return Manifest(
            source=source,
            namespace=namespace,
            entries=tuple(self.entries),
            rejected=tuple(self.rejected),
            cut=tuple(self.cut),
            partial=self.partial,
            gone=tuple(self.gone),
        )

    def _entry(self, record: AgentRecord) -> AgentEntry:
        if fault := name_fault(record.key):
            raise Refusal(f"agent id: {fault}")
        key = copy_text(str(record.key))
        if record.name and (fault := name_fault(record.name)):
            raise Refusal(f"agent name: {fault}")
        agent = Agent(
            id=agent_id(key),
            name=copy_text(str(record.name or key)),
            description=self._text(record.description, f"{record.pointer}/description"),
            kind=_kind(record.kind),
            version=_version(record.version),
            transport=self._transport(record.transport, record.kind),
            tags=_strings(record.tags, "tags"),
            visible_to=_strings(record.visible_to, "visible_to"),
            flags=tuple(map(replace_surrogates, record.flags[:MAX_FLAGS])),
        )
        tools, hidden_tools = self._tools(agent, record.tools)
        for limit in record.limits:
            if names := sorted(tool.name for tool in tools if not limit.shows(tool.name)):
                hidden_tools.update(names)
                self.note_cut(record.pointer, f"{limit.field} keeps from models: {', '.join(names)}; {_UNHIDE}")
        return AgentEntry(
            key=key,
            agent=sealed_agent(agent),
            tools=tools,
            hidden_tools=tuple(sorted(hidden_tools)),
            unasked=not record.asked,
        )

    def _tools(self, agent: Agent, records: Iterable[ToolRecord]) -> tuple[tuple[Tool, ...], set[str]]:
        """And the names of those that its source hides."""
        tools: dict[str, Tool] = {}
        hidden_tools = set[str]()
        for record in records:
            try:
                tool = self._tool(agent, record)
            except Refusal as refusal:
                self.reject(record.pointer, str(refusal))
                continue
            if tool.name in tools:
                self.reject(record.pointer, f"agent {agent.id!r} has a tool {tool.name!r} already; the first is kept")
                continue
            tools[tool.name] = tool
            hidden_tools |= {tool.name} if record.hide else set()
        return tuple(tools.values()), hidden_tools

    def _tool(self, agent: Agent, record: ToolRecord) -> Tool:
        if fault := name_fault(record.name):
            raise Refusal(f"tool name: {fault}")
        name = copy_text(str(record.name))
        tool = Tool(
            id=tool_id(agent.id, name),
            agent_id=agent.id,
            name=name,
            description=self._text(record.description, f"{record.pointer}/description"),
            input_schema=self._schema(record.input_schema, f"{record.pointer}/inputSchema") or "{}",
            output_schema=self._schema(record.output_schema, f"{record.pointer}/outputSchema"),
            annotations=self._schema(record.annotations, f"{record.pointer}/annotations"),
            tags=_strings(record.tags, "tags"),
            questions=self._questions(record.questions, f"{record.pointer}/questions"),
        )
        return sealed_tool(tool)

    def _questions(self, value: object, pointer: str) -> tuple[str, ...]:
        """Each once, in the order given, on one line."""
        if not is_lines(value):
            raise Refusal(f"questions: expected a list of strings, found {shape_of(value)}")
        lines = [replace_surrogates(" ".join(item.split())) for item in value]
        questions = tuple(dict.fromkeys(line[:MAX_QUESTION_CHARS] for line in lines if line))
        if len(questions) > MAX_QUESTIONS:
            self.note_cut(pointer, f"{len(questions)} questions, kept {MAX_QUESTIONS}")
        if any(len(line) > MAX_QUESTION_CHARS for line in lines):
            self.note_cut(pointer, f"a question of more than {MAX_QUESTION_CHARS} characters was cut")
        return questions[:MAX_QUESTIONS]

    def _text(self, value: object, pointer: str) -> str:
        """A text as it is, cut at MAX_TEXT_CHARS; null is an empty one."""
        text = "" if value is None else value
        if not isinstance(text, str):
            raise Refusal(f"description: expected a string, found {shape_of(value)}")
        if len(text) > MAX_TEXT_CHARS:
            self.note_cut(pointer, f"{len(text)} characters, kept {MAX_TEXT_CHARS}")
        return copy_text(replace_surrogates(text[:MAX_TEXT_CHARS]))

    def _schema(self, value: object, pointer: str) -> str:
        """Canonical JSON of a schema; empty if there is none, and if it has more than MAX_TEXT_CHARS."""
        name = pointer.rpartition("/")[2]
        if value is None:
            return ""
        if not isinstance(value, Mapping):
            raise Refusal(f"{name}: expected an object, found {shape_of(value)}")
        if len(schema := _canonical(value, name)) <= MAX_TEXT_CHARS:
            return schema
        self.note_cut(pointer, f"a schema of {len(schema)} characters was left out; {MAX_TEXT_CHARS} are allowed")
        return ""

    def _transport(self, value: object, kind: object) -> str:
        if value is None:
            return ""
        if not isinstance(value, Mapping):
            raise Refusal(f"transport: expected an object, found {shape_of(value)}")
        # Measured before it is searched for secrets, which takes its time on texts without end.
        if (length := len(_canonical(value, "transport"))) > MAX_TEXT_CHARS:
            raise Refusal(f"transport: {length} characters; {MAX_TEXT_CHARS} are allowed")
        return held_transport(value, str(kind))


_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLAIN_PATH = re.compile(r"(?!.*//)(?!(?:.*/)?\.{1,2}(?:/|$))[^/\x00-\x1f\x7f\\][^\x00-\x1f\x7f\\]*(?<!/)")


def plain_facts(skill: Mapping[str, object]) -> dict[str, object]:
    """What of a skill's transport holds no secret, whatever its files and tools are called. Raises Refusal for paths
    that lead out of its folder, and for what is no digest; ValueError as `references_only`.
    """
    files, names, front = (
        skill.get(name, empty) for name, empty in (("files", {}), ("names", []), ("frontmatter", {}))
    )
    if not (isinstance(files, Mapping) and is_lines(names) and isinstance(front, Mapping)):
        raise Refusal("transport: expected files and frontmatter of a skill as objects, names as a list of strings")
    for path, file in files.items():
        if not (isinstance(path, str) and _PLAIN_PATH.fullmatch(path)):
            raise Refusal(f"files: {reprlib.repr(path)} is no path within the skill's folder")
        size, digest = (file.get("size"), file.get("sha256")) if isinstance(file, Mapping) else (None, None)
        if not (type(size) is int and size >= 0 and _DIGEST.fullmatch(str(digest)) and len(file) == 2):
            raise Refusal(f"files: expected sha256 and size of {reprlib.repr(path)}")
    texts = {name: front[name] for name in ("name", "description") if isinstance(front.get(name), str)}
    # A host compares the front matter with that of SKILL.md: with a reference in place of a value it would be refused.
    verbatim = front if references_only(front) | texts == front else {}
    facts = {"files": files, "names": names, "frontmatter": verbatim}
    return {name: fact for name, fact in facts.items() if name in skill}


def held_transport(value: Mapping[str, object], kind: str = "") -> JsonText:
    """A launch or address as the graph holds it: references only. Raises Refusal."""
    try:
        facts = plain_facts(value) if kind == "skill" else {}
        return _canonical(
            references_only({name: value[name] for name in value if name not in facts}) | facts, "transport"
        )
    except ValueError:
        raise Refusal("transport: its url cannot be read") from None  # the error's text holds the URL's login
    except RecursionError:
        raise Refusal("transport: nested too deeply") from None


def _kind(value: object) -> AgentKind:
    for kind in AGENT_KINDS:
        if value == kind:
            return kind
    raise Refusal(f"kind: expected one of {', '.join(AGENT_KINDS)}, found {reprlib.repr(value)}")


def _canonical(value: object, name: str) -> str:
    try:
        text = json.dumps(value, **CANONICAL)
    except (ValueError, TypeError, RecursionError) as exc:
        raise Refusal(f"{name}: cannot be written as JSON ({exc})") from exc
    return text if text.isascii() else replace_surrogates(text)


def _strings(value: object, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not is_lines(value) or not all(value):
        raise Refusal(f"{name}: expected a list of non-empty strings, found {shape_of(value)}")
    for item in value:
        if fault := name_fault(item):
            raise Refusal(f"{name}: {fault}")
    return tuple(sorted(map(copy_text, set(value))))


def _version(value: object) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, (str, int, float)):
        raise Refusal(f"version: expected a string, found {shape_of(value)}")
    try:
        text = str(value)
    except ValueError:  # a number of more digits than Python writes
        raise Refusal("version: a number without end") from None
    if fault := name_fault(text):
        raise Refusal(f"version: {fault}")
    return text


def is_lines(value: object) -> TypeGuard[Sequence[str]]:
    """Whether it is a list of strings."""
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def shape_of(value: object) -> str:
    """What a value is, in JSON's words; never the value itself, which may hold a secret."""
    names: dict[type, Any] = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number"}
    return str(names.get(type(value), "null" if value is None else type(value).__name__))


def _forget(wish: str) -> None:
    """Of a server that nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioLaunch:
    """A command to start; its arguments may hold secrets as well. `env` is all that the server gets beside PATH, HOME,
    LOGNAME, SHELL, TERM and USER. `cwd` empty: ours.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    isolate: bool | Mapping[str, tuple[str, ...]] | None = field(default=None, repr=False)
    """Whether it is confined, or what it may do beside its profile: `reads`, `writes`, `reaches`. None: the setting."""
    grants: tuple[str, ...] = field(default=(), repr=False)
    """What an operator granted it of what it asked for (`box_wishes`)."""
    note_wish: Callable[[str], None] = field(default=_forget, repr=False, compare=False)
    """Takes what it asks for and its box refuses, in a thread."""
    handshake: bool = False
    """Whether to speak to it in the handshake era of the protocol, whatever else it speaks."""
    confidential: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """What references in it stood for, wherever they stood: no message shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLogin:
    """Whose login at which agent's server is used. `id` is of this very login: one made later has another."""

    caller: str
    agent_id: str
    id: str


LOGIN_TIMEOUT_S = 300.0
"""For a person to log in at a server's issuer."""


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client that a person registered by hand at the issuer of a server. `callback_port`: where its login comes back
    to; 0: any free port, which issuers have to take (RFC 8252, 7.3).
    """

    id: str
    secret: str = field(default="", repr=False)
    callback_port: int = 0

    @property
    def record(self) -> dict[str, str]:
        """As RFC 7591 describes one."""
        if not self.secret:
            return {"client_id": self.id, "token_endpoint_auth_method": "none"}
        return {"client_id": self.id, "client_secret": self.secret, "token_endpoint_auth_method": "client_secret_basic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLaunch:
    """An address to ask, over streamable HTTP or the older SSE."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Literal["http", "sse"] = "http"
    oauth: bool = False
    """Whether to log in by OAuth, with the tokens kept for this address."""
    oauth_client: OAuthClient | None = None
    """As which to log in; None: as one that registers itself."""
    user: UserLogin | None = None
    """The caller whose tokens these are; None: the operator."""
    public: bool = False
    """Whether only addresses of the open internet may be connected to: somebody else named it."""
    handshake: bool = False
    """As of a StdioLaunch."""
    confidential: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """As of a StdioLaunch."""


Launch = StdioLaunch | HttpLaunch


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """A server that a source names. `record`: what the source itself says of it, its transport as written there."""

    key: str
    launch: Launch = field(repr=False)
    record: AgentRecord = field(repr=False)
    where: str = ""
    """The document that names it, of a source that has several; empty: the source itself."""
    in_config: bool = False
    """Whether that document is a client's config, where `config_entry` finds it again with all its values."""
    launch_text: str = field(default="", repr=False)
    """All that the config says of the launch, in one text: its values as they stand there, references by their own
    text, and the variables of its `envFile`. Of servers in a config."""
