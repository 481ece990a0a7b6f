"""Running MCP servers, asked once: each that answers is an agent with its tools, each that does not is rejected.

What a server says is taken as any file's content is: by the same checks, with the same limits.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.own_gateway import is_gateway_name, omission
from waygraph.ingest.manifest.records import MAX_TEXT_CHARS, Intake, Manifest, ServerEntry, StdioLaunch
from waygraph.ingest.sources.formats.listings import tool_records
from waygraph.ingest.sources.formats.skill import read_listing
from waygraph.ingest.upstream.box import with_grants
from waygraph.ingest.upstream.connection import Connect, ServerListing
from waygraph.registry.model.changes import AgentEntry, Rejected
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused
from waygraph.registry.model.identity import sealed_agent, sound_names
from waygraph.registry.model.nouns import NO_DESCRIPTION, Tool, failing, suspicions, unreachable
from waygraph.registry.model.process import run_whole
from waygraph.registry.model.settings import Settings

LIVE_RANK = 1
"""Of a source that asked the servers themselves: it speaks before a catalogue, whose rank is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgress:
    """How it stands with one server. `reason` is of one that failed, and one line; `seconds` since its turn came.

    `awaits`: what it is asked for and did not give yet, for whole `seconds` of at most `limit_s`, or longer while it is
    fetched or a person logs in.
    """

    key: str
    state: Literal["waiting", "asking", "online", "failed"]
    tools: int = 0
    seconds: float = 0.0
    reason: str = ""
    awaits: str = ""
    limit_s: float = 0.0


OnAsked = Callable[[ServerProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServers:
    """Servers under the name of the source that lists them, e.g. a client's config. Each has a deadline; none waits
    for another, beyond the limit on how many start at a time.
    """

    name: str
    servers: Sequence[ServerEntry]
    settings: Settings
    namespace: str = ""
    on_asked: OnAsked = field(default=lambda _: None, repr=False)
    connect: Connect | None = field(default=None, repr=False)
    """None: as `ingest.upstream.opening.connect` does."""
    open_page: Callable[[str], None] | None = field(default=None, repr=False)
    """Shows a person the page where they log in by OAuth; None: only tokens that are kept are used."""

    def read(self) -> Manifest:
        """Asks them all. Ends within 2 s of an interrupt, with every process that it started."""
        answers = run_whole(self._ask_all)
        return Manifest(
            source=self.name,
            namespace=self.namespace,
            rank=LIVE_RANK,
            entries=tuple(entry for answer in answers for entry in answer.entries),
            rejected=tuple(fault for answer in answers for fault in answer.rejected),
            cut=tuple(fault for answer in answers for fault in answer.cut),
            silent=tuple(
                (server.key, answer.status)
                for server, answer in zip(self.servers, answers, strict=True)
                if answer.status
            ),
        )

    async def _ask_all(self) -> "list[Answer]":
        import anyio

        from waygraph.ingest.upstream.connection import SERVERS_AT_ONCE, START_S, Starts, SystemClock

        starts = Starts(self.settings.upstream_starts_at_once, START_S, SystemClock())
        asks = anyio.Semaphore(SERVERS_AT_ONCE)
        answers = [Answer()] * len(self.servers)
        if (connect := self.connect) is None:
            from waygraph.ingest.upstream.open import connect as open_connection  # the SDK takes .5 s to import

            connect = partial(open_connection, settings=self.settings, follow=False, open_page=self.open_page)

        async def ask(place: int, server: ServerEntry) -> None:
            is_started = isinstance(server.launch, StdioLaunch)
            async with asks, starts.place() if is_started else nullcontext():
                answers[place] = await self._ask(server, connect)

        for server in self.servers:
            self.on_asked(ServerProgress(key=server.key, state="waiting"))
        async with anyio.create_task_group() as tasks:
            for place, server in enumerate(self.servers):
                tasks.start_soon(ask, place, server)
        return answers

    async def _ask(self, server: ServerEntry, connect: Connect) -> "Answer":
        from anyio import create_task_group, current_time

        began, answer = current_time(), Answer()
        asking = ServerProgress(key=server.key, state="asking")
        self.on_asked(asking)
        waits = [replace(asking, awaits="first answer", limit_s=self.settings.upstream_connect_timeout_s)]
        async with create_task_group() as tasks:
            tasks.start_soon(self._tell_waits, waits)
            try:
                async with connect(with_grants(server.launch, self.settings, self.name, server.key)) as connection:
                    waits.append(replace(asking, awaits="list", limit_s=self.settings.upstream_list_timeout_s))
                    listing = await connection.listing()
                answer = entry_of(server, listing, self.name)
            except UpstreamError as error:
                answer = _no_answer(server, self.name, error)
            except Exception as error:  # noqa: BLE001 - a fault of one server, or in reading it, never ends the others
                answer = _no_answer(server, self.name, UpstreamRefused(f"unexpected {type(error).__name__}"))
            tasks.cancel_scope.cancel()
        seconds = current_time() - began
        if answer.entry is None:
            [fault, *_] = (*answer.rejected, *answer.cut)
            self.on_asked(ServerProgress(key=server.key, state="failed", seconds=seconds, reason=fault.reason))
        else:
            count = len(answer.entry.tools)
            self.on_asked(ServerProgress(key=server.key, state="online", tools=count, seconds=seconds))
        return answer

    async def _tell_waits(self, waits: Sequence[ServerProgress]) -> None:
        """Tells of the last wait, each second that it goes on."""
        from anyio import sleep

        last = waits[-1]
        while True:
            await sleep(1)
            last = replace(last, seconds=last.seconds + 1) if last.awaits == waits[-1].awaits else waits[-1]
            self.on_asked(last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one server gave: an entry or the reason why not, and what of it was not taken or not whole.

    `status`: of one that did not answer as it should.
    """

    entry: AgentEntry | None = None
    skills: tuple[AgentEntry, ...] = ()
    """Those that it lists, as agents of their own."""
    rejected: tuple[Rejected, ...] = ()
    cut: tuple[Rejected, ...] = ()
    status: str = ""

    @property
    def entries(self) -> tuple[AgentEntry, ...]:
        return (self.entry, *self.skills) if self.entry else ()


def entry_of(server: ServerEntry, listing: ServerListing, where: str) -> Answer:
    """What a server says of itself, where its source says nothing of it: name, description, version. Its tools.

    Without a word on the server by either, its tools describe it. A gateway of Waygraph is left out.
    """
    if is_gateway_name(listing.name):
        return Answer(cut=(omission(server.where or where, server.key),))
    intake = Intake(where=server.where or where)
    record = server.record
    own_name = record.name if record.name != record.key else ""
    title, name, version = sound_names(listing.title, listing.name, listing.version)
    # Instructions that begin with a heading are described by what follows it.
    own_words = record.description or _HEADING.sub("", listing.instructions).strip()
    intake.take(
        replace(
            record,
            name=own_name or title or name or record.name,
            description=_with_counts(own_words, listing),
            version=record.version or version,
            asked=True,
            tools=tool_records(list(map(_with_annotations, listing.tools)), f"{record.pointer}/tools", intake),
        )
    )
    # A tool that is not taken is no reason to keep the whole agent as it was: its key is not in the fault.
    entries = [replace(entry, agent=replace(entry.agent, status="online")) for entry in intake.entries]
    if not own_words:
        entries = [_describe_by_tools(entry) for entry in entries]
    skills = Intake(where=intake.where)
    for number, skill in enumerate(listing.skills):
        for skill_record in read_listing(skill, record, number, skills):
            skills.take(skill_record)
    if listing.skills_fault:  # under the server's key: what is held of its skills stays
        skills.reject(f"{record.pointer}/skills", listing.skills_fault, key=server.key)
    return Answer(
        entry=entries[0] if entries else None,
        skills=tuple(skills.entries),
        rejected=(*intake.rejected, *skills.rejected),
        cut=(*intake.cut, *skills.cut),
    )


def _describe_by_tools(entry: AgentEntry) -> AgentEntry:
    description = "\n\n".join(filter(None, (describe_tools(entry.tools), entry.agent.description)))
    return replace(entry, agent=sealed_agent(replace(entry.agent, description=description[:MAX_TEXT_CHARS])))


def _with_counts(description: object, listing: ServerListing) -> object:
    """What a server has beside its tools, as the last line: the graph keeps no entity for it, and a person asks."""
    counts = {"prompt": listing.prompts, "resource": listing.resources, "resource template": listing.resource_templates}
    beside = ", ".join(f"{number} {what}{'s' if number > 1 else ''}" for what, number in counts.items() if number)
    if not beside or not (description is None or isinstance(description, str)):
        return description
    return f"{description or ''}\n\n{BESIDE_TOOLS}{beside}.".lstrip()


TASK_SUPPORT = "taskSupport"
"""The annotation for what MCP has under `execution` of a tool (2025-11-25)."""


def _with_annotations(tool: Any) -> Any:
    """The title where older servers have it, and whether it runs as a task, among the annotations."""
    annotations = (tool.get("annotations") or {}) if isinstance(tool, Mapping) else None
    if not isinstance(annotations, Mapping):
        return tool
    facts = {"title": tool.get("title"), TASK_SUPPORT: fields_of(tool.get("execution")).get(TASK_SUPPORT)}
    more = {name: fact for name, fact in facts.items() if isinstance(fact, str) and name not in annotations}
    return {**tool, "annotations": {**annotations, **more}} if more else tool


def _no_answer(server: ServerEntry, where: str, error: UpstreamError) -> Answer:
    reason, now = error.reason, datetime.now(UTC).isoformat(timespec="seconds")
    fault = Rejected(where=f"{server.where or where}#{server.record.pointer}", reason=reason, key=server.key)
    return Answer(
        rejected=(fault,), status=failing(reason) if isinstance(error, UpstreamRefused) else unreachable(now, reason)
    )


BESIDE_TOOLS = "Beside its tools: "
"""Begins the last line of a description: how many prompts and resources the server has."""
MAX_CHARS, MAX_SENTENCE_CHARS, MAX_EXAMINED_CHARS = 2_000, 160, 1_000_000
_HEADING = re.compile(r"\A(?:\s*+(?:#[^\n]*|\*\*[^\n]*\*\*:?|[^\n]+\n[=-]{3,})[ \t]*(?:\n|\Z))+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")


def describe_tools(tools: Sequence[Tool]) -> str:
    """One sentence for people, then what the ranking reads: `add_note: Add a note. find_notes: …`, by name, at most
    MAX_CHARS. Suspicious tools are left out, and those for which the texts of all would have more than
    MAX_EXAMINED_CHARS. Empty if nothing is left.
    """
    from waygraph.ingest.manifest.suspicion.findings import examine, text_chars

    text, room = "", MAX_EXAMINED_CHARS
    for tool in sorted(tools, key=lambda tool: tool.name):
        if (chars := text_chars(tool)) > room:
            continue
        room -= chars
        if suspicions(examine(tool).flags(lambda _: {})):
            continue
        line = " ".join(tool.description[: 4 * MAX_SENTENCE_CHARS].split())
        sentence = _SENTENCE_END.split(line, maxsplit=1)[0]
        if len(sentence) > MAX_SENTENCE_CHARS:
            sentence = sentence[:MAX_SENTENCE_CHARS].rpartition(" ")[0]
        part = f"{tool.name}: {sentence.rstrip('.')}." if sentence else f"{tool.name}."
        if len(text) + len(part) + 1 > MAX_CHARS:
            break
        text = f"{text} {part}".lstrip()
    return f"{NO_DESCRIPTION}{len(tools)} tool{'s' * (len(tools) != 1)}.\n\n{text}" if text else ""


def is_made_of_tools(description: str, tools: Sequence[Tool]) -> bool:
    """Whether it says nothing but what these tools say, and how much there is beside them."""
    text = describe_tools(tools)
    return bool(text) and (description == text or description.startswith(f"{text}\n\n{BESIDE_TOOLS}"))
