"""`connect --check`: waits until a host has called a tool through a gateway of this registry."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import typer

from waygraph.api.cli.options import Invocation
from waygraph.api.cli.render.output import INTERRUPT, Block, Lines, complain, note
from waygraph.ingest.hosts.config import HostConfig
from waygraph.ingest.hosts.hosts import Host, host_of_client, reaches_gateway
from waygraph.ingest.manifest.own_gateway import is_gateway, registry_of
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.files import absolute_place
from waygraph.registry.model.numbers import FAR_S, Bounds, read_number
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.usage import HostContact
from waygraph.registry.storage.usage_file import read_contacts

POLL_S = 0.5
RECENT = timedelta(minutes=10)
"""A call counts that came before the check by so much: a person may ask the host first."""
SESSION_AGE = timedelta(days=1)
"""A gateway that a host started so long ago may run still."""

_EVENTS = {
    "start": "a host started a gateway",
    "session": "{client} began a session",
    "list": "{client} asked for the list of tools",
    "find": "{client} looked for tools",
    "tool_error": "{client} called {tool}, which reported an error",
    "refused": "{client} called {tool}, and the gateway refused it",
    "upstream_failed": "{client} called {tool}, whose server cannot be reached or broke off",
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
    """`host` None: any will do. `takes_earlier`: whether a call counts that came before `began`.

    `contacts`: those that were shown, by what they are; `others_at`: when another host last did something, in ISO 8601.
    """

    settings: Settings
    place: str
    host: Host | None
    takes_earlier: bool = True
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    others_at: str = ""
    contacts: dict[tuple[str, ...], HostContact] = field(default_factory=dict)

    def wait(self, timeout_s: float) -> HostContact | None:
        """The call that arrived; None if none did in this time."""
        ends_at = time.monotonic() + timeout_s
        while True:
            all_contacts = read_contacts(self.settings, self.place, days=2)
            contacts = [each for each in all_contacts if self._counts(each)]
            others = (each.at for each in all_contacts if each.event != "start" and each not in contacts)
            self.others_at = max(others, default="")
            for contact in contacts:
                self._show(contact)
            if calls := [each for each in contacts if each.event == "ok"]:
                return calls[-1]
            if time.monotonic() >= ends_at:
                return None
            time.sleep(min(POLL_S, max(0.0, ends_at - time.monotonic())))

    def _counts(self, contact: HostContact) -> bool:
        """Whether it came since the check began and nothing tells that it is of another host, or is recent and of this
        one.
        """
        at, host = datetime.fromisoformat(contact.at), host_of_client(contact.client)
        if at >= self.began:
            return self.host is None or host in (None, self.host)
        if not contact.client or self.host not in (None, host) or (contact.event == "ok" and not self.takes_earlier):
            return False
        return at >= self.began - (SESSION_AGE if contact.event == "session" else RECENT)

    def _show(self, contact: HostContact) -> None:
        if contact.event == "ok":  # the answer itself
            return
        key = (contact.client, contact.event, contact.tool_id, contact.error)
        before = self.contacts.get(key)
        self.contacts[key] = contact
        if before is None or (contact.event in _FAILURES and before.at != contact.at):
            facts = {"client": contact.client, "tool": contact.tool_id or "a tool"}
            note(f"{_clock(contact.at)} {_EVENTS[contact.event].format_map(facts)}")

    @property
    def advice(self) -> str:
        """What to do about the last thing that a host did."""
        ours = [each for each in self.contacts.values() if each.event != "start" or each.at > self.others_at]
        last = max(ours, key=lambda each: (each.at, list(_NEXT).index(each.event)), default=None)
        return _NEXT[last.event if last else ""]


def check_host(options: Invocation, config: HostConfig | None, timeout_s: float) -> None:
    """Prints the call, or exits with 1. `config`: of the host that is meant; None: any. Raises InvalidSetting."""
    settings, location = options.settings, options.own_place()
    if read_number(timeout_s, 0, FAR_S) is None:
        raise InvalidSetting(f"--timeout must be a {Bounds(least=0, most=FAR_S)}, not {timeout_s:g}")
    if not settings.usage:
        raise InvalidSetting(
            "WAYGRAPH_USAGE is off: gateways note nothing of their hosts then, and no call can be seen. Switch it on, "
            "also in the hosts' entries: `waygraph connect HOST --write`"
        )
    place = absolute_place(location)
    others = config is not None and _is_of_others(config, place)
    check = HostCheck(settings, place, config.host if config else None, takes_earlier=not others)
    name = config.host.name if config else "a host"
    try:
        note(f"waiting {timeout_s:g} s for a call by {name} through the gateway of {place}; Ctrl-C ends it")
        for text in _before(config, place):
            note(text)
        call = check.wait(timeout_s)
    except KeyboardInterrupt:
        complain(f"ended before a call came: {check.advice}")
        raise typer.Exit(INTERRUPT) from None
    if call is None:
        complain(f"no call came in {timeout_s:g} s: {check.advice}")
        raise typer.Exit(1)
    is_earlier = datetime.fromisoformat(call.at) < check.began
    options.show(call, partial(_view_call, is_earlier=is_earlier), asdict)


def _before(config: HostConfig | None, place: str) -> Iterator[str]:
    """What a person does in the host; before it what its file lacks."""
    if config is None:
        yield "ask a host for something that one of the tools does"
        return
    host = config.host
    if not _gateways_of(config):
        yield f"{config.path} has no gateway: `waygraph connect {host.id} --write` puts it there"
    elif _is_of_others(config, place):
        yield f"the gateway in {config.path} is of another registry: --registry names that one here"
    yield f"{host.restart}; then ask {host.name} for something that one of the tools does"


def _gateways_of(config: HostConfig) -> list[object]:
    return [entry for entry in config.servers.values() if is_gateway(entry) or reaches_gateway(config.host, entry)]


def _is_of_others(config: HostConfig, place: str) -> bool:
    """Whether it has gateways, and all of them name another registry."""
    places = [registry_of(entry) for entry in _gateways_of(config)]
    return bool(places) and not any(each in ("", place) for each in places)


def _clock(at: str) -> str:
    """A time of today or yesterday, as the clock here has it."""
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")


def _view_call(call: HostContact, *, is_earlier: bool) -> Iterator[Block]:
    host = host_of_client(call.client)
    name = f"{host.name} ({call.client})" if host else call.client
    took = "" if call.duration_ms is None else f", in about {call.duration_ms / 1000:.2g} s"
    at = _clock(call.at)
    earlier = f"connected: by an earlier call, at {at}: {name} called {call.tool_id}{took}"
    yield Lines(earlier if is_earlier else f"connected: {name} called {call.tool_id} at {at}{took}", style="green")
