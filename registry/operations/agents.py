"""What operators say of agents, tools and sources, and what becomes of what waits for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import MaxLen, MinLen

from waygraph.registry.model import shapes
from waygraph.registry.model.box_wishes import WishFile, is_wish
from waygraph.registry.model.changes import Approved, Change, Forgotten, OperatorSettings, Page, Rejections, Waiting
from waygraph.registry.model.errors import InvalidQuery, InvalidSetting, UnknownName
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.shapes import Shape, TransportFilter
from waygraph.registry.model.tool_settings import MAX_REASON_CHARS, merge_tool_setting
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_NAMES, setting_changes
from waygraph.registry.operations.change_log import ChangesQuery, seen_changes, seen_waiting
from waygraph.registry.operations.request import Graph, Id, Name, PartRequest, Request, make_read, make_write
from waygraph.registry.operators import approval
from waygraph.registry.operators.rights import refuse_non_operator
from waygraph.registry.operators.sources import forget_source

if TYPE_CHECKING:
    from waygraph.registry.writer import WriteSession


SETTING_FIELDS = ("tags", "visible_to", "pinned", "hidden", "removed")


@dataclass(frozen=True, kw_only=True)
class SettingRequest(Request[OperatorSettings]):
    """Answered by all that operators said of an agent."""

    def write(self, answer: OperatorSettings, transport: TransportFilter = None) -> Shape:
        return shapes.settings(answer, transport)


@dataclass(frozen=True, kw_only=True)
class SetAgent(SettingRequest):
    """Pin, hide, tag or restrict an agent. It survives every sync.

    What others see needs the scope `admin` too, or a caller who sees everything; so does a pin.
    """

    operation = make_write("set_agent", "PATCH", "/v1/agents/{agent_id}", OperatorSettings, audit=("set", "{agent_id}"))

    agent_id: Id
    """An agent's id."""
    changes: Mapping[str, object]
    """By field what is set; None takes `visible_to` back."""

    def sent_fields(self) -> dict[str, Any]:
        if self.changes.get("removed"):
            raise InvalidSetting("over HTTP an agent is removed by itself: set the rest before, in a call of its own")
        # Nothing to set is said so that the service takes it.
        return {"agent_id": self.agent_id, **(self.changes or {"pinned": None})}

    def audit_details(self) -> Mapping[str, object]:
        return self.changes

    def answer(self, graph: Graph, principal: Principal | None) -> OperatorSettings:
        given: dict[str, Any] = {name: self.changes.get(name) for name in SETTING_FIELDS}
        changes = setting_changes(**given, everyone=self.changes.get("visible_to", ()) is None)

        def work(session: "WriteSession") -> OperatorSettings:
            view = session.read_agents([self.agent_id], principal)
            setting = approval.changed_setting(view, self.agent_id, changes, principal)
            if setting != view.settings_of(self.agent_id):
                approval.put_setting(session, setting)
            return setting

        return graph.change_existing(work)


@dataclass(frozen=True, kw_only=True)
class SetTool(SettingRequest):
    """Rename or describe a tool, add questions that it can answer, and rename, describe, fix or hide its parameters. It
    survives every sync.

    It needs the scope `admin` too, or a caller who sees everything.
    """

    operation = make_write(
        "set_tool",
        "PATCH",
        "/v1/tools/{agent_id}/{tool_name:path}",
        OperatorSettings,
        audit=("set", "{agent_id}/{tool_name}"),
    )

    agent_id: Id
    """An agent's id."""
    tool_name: Annotated[str, MinLen(1)]
    """The name of one of its tools."""
    changes: Mapping[str, Any]
    """By field what is set; None takes a field back."""

    @classmethod
    def of(cls, name: str, changes: Mapping[str, Any]) -> "SetTool":
        """`name`: a tool's id, or the call name that its source gives it, which only a registry here knows."""
        agent_id, slash, tool_name = name.partition("/")
        return cls(agent_id=agent_id if slash else "", tool_name=tool_name if slash else name, changes=changes)

    def sent_fields(self) -> dict[str, Any]:
        if not self.agent_id:
            raise UnknownName("tool", self.tool_name, ())
        return {"agent_id": self.agent_id, "tool_name": self.tool_name, **self.changes}

    def audit_details(self) -> Mapping[str, object]:
        return {"fields": sorted(self.changes)}

    def answer(self, graph: Graph, principal: Principal | None) -> OperatorSettings:
        refuse_non_operator("to set a tool", principal)
        # A tool is also known by the call name that its source gives it, which has no owner before it.
        name = f"{self.agent_id}/{self.tool_name}" if self.agent_id else self.tool_name

        def work(session: "WriteSession") -> OperatorSettings:
            session.set_apart(principal)
            view = approval.read_named(session, [name], principal)
            tool = approval.find_held_tool(view, name, principal, hint="")
            siblings = [item.tool for item in view.tools_of([tool.agent_id])[tool.agent_id]]
            setting = merge_tool_setting(view.settings_of(tool.agent_id), tool, siblings, self.changes)
            if setting != view.settings_of(tool.agent_id):
                approval.put_setting(session, setting)
            return setting

        return graph.change_existing(work)


@dataclass(frozen=True, kw_only=True)
class RemoveAgent(SettingRequest):
    """Remove an agent and its tools, and keep it away whatever its source says.

    What others see needs the scope `admin` too, or a caller who sees everything.
    """

    operation = make_write(
        "remove_agent", "DELETE", "/v1/agents/{agent_id}", OperatorSettings, audit=("remove", "{agent_id}")
    )

    agent_id: Id
    """An agent's id."""

    def answer(self, graph: Graph, principal: Principal | None) -> OperatorSettings:
        return SetAgent(agent_id=self.agent_id, changes={"removed": True}).answer(graph, principal)


ApprovedName = Annotated[str, MinLen(1), MaxLen(approval.MAX_NAME_CHARS)]
ApprovedHashes = Annotated[Mapping[ApprovedName, Annotated[str, MaxLen(64)]], MaxLen(MAX_NAMES)]


@dataclass(frozen=True, kw_only=True)
class DecisionRequest[A](Request[A]):
    """About what waits."""

    names: Annotated[Sequence[ApprovedName], MaxLen(MAX_NAMES)] = ()
    """Agents by id, each with all its tools that wait; tools by id (agent/tool) or call name; `source:NAME`. Or wishes
    of servers in boxes, such as `AGENT reaches HOST:PORT`.
    """
    hashes: ApprovedHashes = field(default_factory=dict)
    """By id the `content_hash` of what was read: these alone are meant, and none if one differs."""

    @property
    def target(self) -> str:
        return ", ".join(self.names or self.hashes)

    def sent_fields(self) -> dict[str, Any]:
        return {"hashes": dict(self.hashes)} if self.hashes else {"names": self.names}

    def decide_wishes(self, graph: Graph, principal: Principal | None, reason: str = "") -> Rejections | None:
        """None: it is about texts. Raises InvalidSetting where it is about both."""
        hashes = {name: self.hashes.get(name) for name in self.names or self.hashes}
        wishes = tuple(filter(is_wish, hashes))
        if wishes and len(wishes) < len(hashes):
            raise InvalidSetting("what servers ask of their boxes is decided apart from what agents and tools say")
        if not wishes:
            return None
        file = WishFile.inside(graph.settings.data_path)
        revision = graph.change_existing(
            lambda session: approval.decide_wishes(session, file, hashes, principal, reason)
        )
        return Rejections(wishes=wishes, revision=revision)


@dataclass(frozen=True, kw_only=True)
class Approve(DecisionRequest[Approved]):
    """Let what waits into routing, as it is now, and accept flagged texts: all that is named, or nothing.

    It needs the scope `admin` too, or a caller who sees everything.
    """

    operation = make_write(
        "approve", "POST", "/v1/approvals", Approved, audit=("approve", "{target}"), body="ApprovalRequest"
    )

    def answer(self, graph: Graph, principal: Principal | None) -> Approved:
        names = approval.checked_names(self.names, hashes=self.hashes)
        if grants := self.decide_wishes(graph, principal):
            return grants
        return graph.change_existing(
            lambda session: approval.approve(session, *names, hashes=self.hashes, principal=principal)
        )


@dataclass(frozen=True, kw_only=True)
class Reject(DecisionRequest[Rejections]):
    """Keep what waits out of routing as it is now, also flagged texts, and let it wait no more: all that is named, or
    nothing. A new text of it waits again; an approval undoes it.

    It needs the scope `admin` too, or a caller who sees everything.
    """

    operation = make_write(
        "reject", "POST", "/v1/rejections", Rejections, audit=("reject", "{target}"), body="RejectionRequest"
    )

    reason: Annotated[str, MinLen(1), MaxLen(MAX_REASON_CHARS)]
    """Why; whoever sees it reads this."""
    by: str = ""
    """Who, for the record: a service notes who calls it."""

    def sent_fields(self) -> dict[str, Any]:
        if self.by:
            raise InvalidQuery("a service notes the caller of the key that it is shown: nobody else can be named")
        return {"reason": self.reason, **super().sent_fields()}

    def audit_details(self) -> Mapping[str, object]:
        return {"reason": self.reason}

    def answer(self, graph: Graph, principal: Principal | None) -> Rejections:
        names = approval.checked_names(self.names, "reject", self.hashes)
        reason = approval.checked_reason(self.reason)
        if rejections := self.decide_wishes(graph, principal, reason):
            return rejections
        return graph.change_existing(
            lambda session: approval.reject(
                session, *names, reason=reason, by=self.by, hashes=self.hashes, principal=principal
            )
        )


@dataclass(frozen=True, kw_only=True)
class ForgetSource(Request[Forgotten]):
    """Remove a source, and the agents that only it claimed.

    What others see needs the scope `admin` too, or a caller who sees everything; so does a source with a policy.
    """

    operation = make_write("forget_source", "DELETE", "/v1/sources/{name:path}", Forgotten, audit=("forget", "{name}"))

    name: Name
    """The source's name."""

    def answer(self, graph: Graph, principal: Principal | None) -> Forgotten:
        answer = graph.change_existing(lambda session: forget_source(session, self.name, principal))
        WishFile.inside(graph.settings.data_path).forget(self.name)
        return answer


@dataclass(frozen=True, kw_only=True)
class ListChanges(PartRequest[Change]):
    """What came, and what sources changed of what was known: agents, tools and sources, the newest first."""

    operation = make_read("changes", "/v1/changes", "Changes")
    listing, noun, is_falling = "changes", Change, True

    since: Annotated[str, MaxLen(64)] = ""
    """Only from then on: a time in ISO 8601, in UTC unless it says otherwise (its + is %2B in a URL)."""
    agent: Annotated[str, MaxLen(MAX_ID_CHARS)] = ""
    """Only of this agent and its tools."""

    @property
    def query(self) -> ChangesQuery:
        """Raises InvalidQuery."""
        return ChangesQuery.of(self.since, self.agent, self.start, self.most)

    def sent_fields(self) -> dict[str, Any]:
        query = self.query
        return super().sent_fields() | ({"agent": query.agent_id} if query.agent_id else {})

    def write_item(self, item: Change, transport: TransportFilter) -> Shape:
        return shapes.shape(shapes.shown_change(item, transport))

    def answer(self, graph: Graph, principal: Principal | None) -> Page[Change]:
        query = self.query
        return graph.read(lambda session: seen_changes(session, query, principal))


@dataclass(frozen=True, kw_only=True)
class ListWaiting(PartRequest[Waiting]):
    """What waits for approval, what was rejected, and what is flagged and not approved: agents and tools, by id."""

    operation = make_read("waiting", "/v1/waiting", "WaitingTexts")
    listing, noun = "waiting", Waiting

    def write(self, answer: Page[Waiting], transport: TransportFilter = None) -> Shape:
        """Wishes are for those who read how servers are started."""
        if transport is None:
            return super().write(answer)
        items, last = tuple(each for each in answer if not is_wish(each.id)), answer.following
        following = f"{last.partition(' ')[0]} ~" if is_wish(last) else last  # behind all wishes of that server
        return super().write(replace(answer, items=items, following=following), transport)

    def write_item(self, item: Waiting, transport: TransportFilter) -> Shape:
        return shapes.shape(shapes.shown_waiting(item, transport))

    def answer(self, graph: Graph, principal: Principal | None) -> Page[Waiting]:
        file = WishFile.inside(graph.settings.data_path)
        return graph.read(lambda session: seen_waiting(session, principal, self.start, self.most, file))
