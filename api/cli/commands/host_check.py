"""`connect --check`: waits until a host has called a tool through a gateway of this registry."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta

import typer

from waygraph.api.cli.options import Invocation
from waygraph.api.cli.render.output import Block, Lines, complain, note, show
from waygraph.ingest.hosts.config import HostConfig
from waygraph.ingest.hosts.hosts import Host, host_of_client, reaches_gateway
from waygraph.ingest.manifest.own_gateway import is_gateway
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.files import as_written
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.usage import HostContact
from waygraph.registry.storage.usage_file import read_contacts

POLL_S = 0.5
RECENT = timedelta(minutes=10)
"""A call counts that came before the check by so much: a person may ask the host first."""
SESSION_AGE = timedelta(days=1)
"""A gateway that a host started so long ago may run still."""
INTERRUPT_STATUS = 130
_REGISTRY = "--registry"

_EVENTS = {
    "start": "a host started a gateway",
    "session": "{client} began a session",
    "list": "{client} asked for the list of tools",
    "find": "{client} looked for tools",
    "tool_error": "{client} called {tool}, which reported an error",
    "refused": "{client} called {tool}, and the gateway refused it{error}",
    "upstream_failed": "{client} called {tool}, whose server cannot be reached or broke off{error}",
    "timed_out": "{client} called {tool}, which gave no answer in time",
    "cancelled": "{client} called {tool}, and cancelled it",
}
_FAILURES = {
    "tool_error": "try another tool, or other words",
    "refused": "the host shows the gateway's answer, which says why",
    "upstream_failed": "`waygraph sources` shows which servers do not answer",
    "timed_out": "WAYGRAPH_CALL_TIMEOUT_S gives a call more time",
    "cancelled": "ask it again, and let it end",
}
_NEXT = {
    "": "no host started a gateway: has it read its config anew, and is it this registry's entry that it has?",
    "start": "a program started a gateway, and did not speak to it: look at the host's log of MCP servers",
    "session": "the host asks for nothing yet: ask it for something that one of the tools does",
    "list": "its model does not look for tools: name the tool that you want, or Waygraph",
    "find": "its model found tools and called none: ask for what one of them does, in plain words",
    **_FAILURES,
}


@dataclass(slots=True)
class HostCheck:
    """`host` None: any will do. `contacts`: those that were shown, by what they are."""

    settings: Settings
    place: str
    host: Host | None
    contacts: dict[tuple[str, ...], HostContact] = field(default_factory=dict)

    def wait(self, timeout_s: float) -> HostContact | None:
        """The call that arrived; None if none did in this time."""
        ends_at = time.monotonic() + timeout_s
        since = datetime.now(UTC) - RECENT
        while True:
            contacts = [each for each in read_contacts(self.settings, self.place, days=2) if self._counts(each, since)]
            for contact in contacts:
                self._show(contact)
            if calls := [each for each in contacts if each.event == "ok"]:
                return calls[-1]
            if time.monotonic() >= ends_at:
                return None
            time.sleep(min(POLL_S, max(0.0, ends_at - time.monotonic())))

    def _counts(self, contact: HostContact, since: datetime) -> bool:
        """Whether it is recent, and nothing tells that it is of another host."""
        age = SESSION_AGE if contact.event == "session" else timedelta()
        is_recent = datetime.fromisoformat(contact.at) >= since - age
        return is_recent and (self.host is None or host_of_client(contact.client) in (None, self.host))

    def _show(self, contact: HostContact) -> None:
        if contact.event == "ok":  # the answer itself
            return
        key = (contact.client, contact.event, contact.tool_id, contact.error)
        before = self.contacts.get(key)
        self.contacts[key] = contact
        if before is None or (contact.event in _FAILURES and before.at != contact.at):
            note(f"{_clock(contact.at)} {_sentence(contact)}")

    @property
    def advice(self) -> str:
        """What to do about the last thing that a host did."""
        last = max(self.contacts.values(), key=lambda each: (each.at, list(_NEXT).index(each.event)), default=None)
        return _NEXT[last.event if last else ""]


def check_host(options: Invocation, config: HostConfig | None, timeout_s: float, *, as_json: bool) -> None:
    """Prints the call, or exits with 1. `config`: of the host that is meant; None: any. Raises InvalidSetting."""
    settings = options.settings()
    location = options.own_place(settings)
    if not settings.usage:
        raise InvalidSetting(
            "WAYGRAPH_USAGE is off: gateways note nothing of their hosts then, and no call can be seen. Switch it on, "
            "also in the hosts' entries: `waygraph connect HOST --write`"
        )
    place = str(location) if "://" in str(location) else str(as_written(location).absolute())
    check = HostCheck(settings, place, config.host if config else None)
    name = config.host.name if config else "a host"
    try:
        note(f"waiting {timeout_s:g} s for a call by {name} through the gateway of {place}; Ctrl-C ends it")
        for text in _before(config, place):
            note(text)
        call = check.wait(timeout_s)
    except KeyboardInterrupt:
        complain(f"ended before a call came: {check.advice}")
        raise typer.Exit(INTERRUPT_STATUS) from None
    if call is None:
        complain(f"no call came in {timeout_s:g} s: {check.advice}")
        raise typer.Exit(1)
    show(call, asdict, _view_call, as_json)


def _before(config: HostConfig | None, place: str) -> Iterator[str]:
    """What a person does in the host; before it what its file lacks."""
    if config is None:
        yield "ask a host for something that one of the tools does"
        return
    host = config.host
    ours = [entry for entry in config.servers.values() if is_gateway(entry) or reaches_gateway(host, entry)]
    others = [entry for entry in ours if _REGISTRY in _arguments(entry) and place not in _arguments(entry)]
    if not ours:
        yield f"{config.path} has no gateway: `waygraph connect {host.id} --write` puts it there"
    elif others == ours:
        yield f"the gateway in {config.path} is of another registry: --registry names that one here"
    yield f"{host.restart}; then ask {host.name} for something that one of the tools does"


def _arguments(entry: object) -> Sequence[object]:
    arguments = entry.get("args") if isinstance(entry, Mapping) else None
    return arguments if isinstance(arguments, list) else ()


def _clock(at: str) -> str:
    """A time of today or yesterday, as the clock here has it."""
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")


def _sentence(contact: HostContact) -> str:
    error = f" ({contact.error})" if contact.error else ""
    tool = contact.tool_id or "a tool"
    return _EVENTS[contact.event].format(client=contact.client, tool=tool, error=error)


def _view_call(call: HostContact) -> Iterator[Block]:
    host = host_of_client(call.client)
    name = f"{host.name} ({call.client})" if host else call.client
    took = "" if call.duration_ms is None else f", in about {call.duration_ms / 1000:.2g} s"
    yield Lines(f"connected: {name} called {call.tool_id} at {_clock(call.at)}{took}", style="green")
