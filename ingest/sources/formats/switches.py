"""What a host switches off: a server, or tools of it that its model is not shown. By the server's entry, and by lists
that stand beside the servers.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.records import ToolLimit, shape_of


class Faulty(Exception):
    """What is wrong with a server's entry; its message holds no value of it."""


SWITCHES = {
    **dict.fromkeys(("disabled", "disable", "isdisabled"), True),
    **dict.fromkeys(("enabled", "enable", "isenabled", "active", "isactive"), False),
}
"""Field → the value by which it switches something off."""
_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}
_GRANTS = {
    **_WORDS,
    **dict.fromkeys(("allow", "allowed", "always", "ask", "confirm", "enabled"), True),
    **dict.fromkeys(("block", "blocked", "denied", "deny", "disabled", "hidden", "never", "reject"), False),
}
"""What a host may say of one tool → whether its model is shown it."""
_GRANT_FIELDS = ("default", "permission", "mode", "approval_mode")
_HIDING = frozenset(
    "alwaysdeny blockedtools deniedtools denytools disabledtools disallowedtools excludedtools excludetools hiddentools"
    " unsupportedtools".split()
)
"""Fields, without case, `_` and `-`, that list the tools which a model is not shown."""
_OFFERING = frozenset("allowedtools allowtools availabletools enabledtools includedtools includetools tools".split())
"""Those that list the only ones which it is shown."""
_OFFERING_BESIDE = frozenset("enabledtools includetools tools".split())
"""Beside the servers `allowedTools` are those that a model may call unasked."""
_ALL_IF_EMPTY = frozenset(("tools", "availabletools"))
"""Hosts write these lists whether a person chose anything or not."""
_TABLES = frozenset("tools toolconfiguration toolfilter toolpermissions toolsfilter toolspolicy".split())
"""Those that hold such lists, or a switch for each tool."""
_TABLES_BESIDE = frozenset(("tools", "permission", "permissions", "toolpermissions"))
_HIDING_INSIDE = frozenset("block blocked denied deny disabled disallow disallowed exclude excluded".split()) | _HIDING
_OFFERING_INSIDE = frozenset("allow allowed enabled include included".split()) | _OFFERING
LIMITS = _HIDING | _OFFERING | _TABLES
_OFF_LISTS = ("disabledMcpServers", "disabledMcpjsonServers", "deniedMcpServers", "excludeMCPServers")
_ON_LISTS = ("allowMCPServers", "allowedMcpServers")


@lru_cache(maxsize=256)
def plain_name(name: object) -> str:
    return str(name).casefold().replace("_", "").replace("-", "")


def is_off(parts: Iterable[Mapping[Any, Any]]) -> bool:
    """Whether any field of these switches its owner off. Raises Faulty for a switch that says neither."""
    switches = [(name, value) for part in parts for name, value in part.items() if plain_name(name) in SWITCHES]
    return True in {_switch_value(name, value) is SWITCHES[plain_name(name)] for name, value in switches}


def _switch_value(name: str, value: object) -> bool | None:
    """True or false; None if it says nothing. Raises Faulty."""
    if value is None or value == "":
        return None
    if isinstance(value, (bool, int, float)):
        return bool(value)
    word = value.strip().casefold() if isinstance(value, str) else ""
    if word not in _WORDS:
        raise Faulty(f"{name}: expected true or false, found {shape_of(value)}")
    return _WORDS[word]


# -- tools -----------------------------------------------------------------------------------------


def entry_limits(parts: Iterable[Mapping[Any, Any]]) -> tuple[ToolLimit, ...]:
    """Of the parts of a server's entry. Raises Faulty for a list that cannot be read: it may keep anything."""
    return tuple(limit for part in parts for name, value in part.items() for limit in _limits(name, value))


def _limits(name: str, value: object, *, beside: bool = False) -> Iterator[ToolLimit]:
    plain, tables, offering = plain_name(name), _TABLES, _OFFERING
    if beside:
        tables, offering = _TABLES_BESIDE, _OFFERING_BESIDE
    if value is None:
        return
    if plain in tables and isinstance(value, Mapping):
        yield from _limits_inside(name, value, beside=beside)
    elif plain in _HIDING or plain in offering:
        yield _list_limit(name, value, offers=plain in offering)


def _limits_inside(name: str, table: Mapping[Any, Any], *, beside: bool) -> Iterator[ToolLimit]:
    rules = list[tuple[str, bool]]()
    for key, value in table.items():
        plain = plain_name(key)
        if isinstance(value, list) and plain in _HIDING_INSIDE:
            yield _list_limit(f"{name}.{key}", value, offers=False)
        elif isinstance(value, list) and plain in _OFFERING_INSIDE and not beside:
            yield _list_limit(f"{name}.{key}", value, offers=True)
        elif plain in SWITCHES and isinstance(value, bool):
            rules.append(("*", value is not SWITCHES[plain]))
        elif (is_offered := _grant(value)) is not None:
            rules.append((str(key), is_offered))
    if rules:
        yield ToolLimit(field=name, rules=tuple(rules))


def _grant(value: object) -> bool | None:
    """What a host says of one tool: whether its model is shown it; None if it says nothing of that. Raises Faulty."""
    if isinstance(value, Mapping):
        grants = (_grant(value[name]) for name in _GRANT_FIELDS if not isinstance(value.get(name), Mapping | None))
        return False if is_off([value]) else next((each for each in grants if each is not None), None)
    if isinstance(value, bool):
        return value
    return _GRANTS.get(value.strip().casefold()) if isinstance(value, str) else None


def _list_limit(name: str, value: object, *, offers: bool) -> ToolLimit:
    """Of names, of objects with a name, which may have a switch, or of names with switches. Raises Faulty."""
    items = [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
    if isinstance(items, Mapping):
        rules = [
            (str(key), _grant(each) is not False if offers else _grant(each) is False) for key, each in items.items()
        ]
        return ToolLimit(field=name, rules=tuple(rules))
    if not isinstance(items, list) or not all(isinstance(each, (str, Mapping)) for each in items):
        raise Faulty(f"{name}: expected a list of tools' names, found {shape_of(value)}")
    # Gemini CLI also offers `tool(arguments)`.
    names = [each.partition("(")[0] if offers else each for each in items if isinstance(each, str)]
    rules = [
        (str(each.get("name")), not is_off([each]) if offers else is_off([each]))
        for each in items
        if isinstance(each, Mapping)
    ]
    is_chosen = bool(names) or (not items and plain_name(name) not in _ALL_IF_EMPTY)
    return ToolLimit(field=name, rules=(*rules, *((each, offers) for each in names)), others=not (offers and is_chosen))


# -- beside the servers ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What a document says of its servers beside them: which are off, and if it lists them, which alone are on; and
    of their tools. `profile`: of Zed, what its usual profile says of servers.
    """

    off: frozenset[str] = frozenset()
    on: frozenset[str] = frozenset()
    limits: tuple[ToolLimit, ...] = ()
    profile: Mapping[str, Any] = field(default_factory=dict)

    def turn_off(self, name: object) -> bool:
        return name in self.off or bool(self.on and name not in self.on)

    def limits_of(self, name: str) -> Iterator[ToolLimit]:
        """Those that count for the tools of this server."""
        yield from (replace(limit, server=name) for limit in self.limits)
        tools = fields_of(fields_of(fields_of(self.profile.get("context_servers")).get(name)).get("tools"))
        is_open = self.profile.get("enable_all_context_servers") is not False
        if tools or not is_open:
            rules = tuple((str(tool), value is not False) for tool, value in tools.items())
            yield ToolLimit(field="agent.profiles", rules=rules, others=is_open)


def switches_of(document: Mapping[str, Any]) -> Switches:
    """Of a whole document, or of the part for one project."""
    settings, agent = fields_of(document.get("mcp")), fields_of(document.get("agent"))
    off = [document.get(name) for name in _OFF_LISTS]
    on = [document.get(name) for name in _ON_LISTS]
    return Switches(
        off=_names([*off, settings.get("excluded")]),
        on=_names([*on, settings.get("allowed")]),
        limits=tuple(
            _limits_beside({**document, "tool_permissions": fields_of(agent.get("tool_permissions")).get("tools")})
        ),
        profile=fields_of(fields_of(agent.get("profiles")).get(str(agent.get("default_profile") or "write"))),
    )


def _limits_beside(document: Mapping[str, Any]) -> Iterator[ToolLimit]:
    """What is no list of tools' names may be a setting of something else, or a server of this name."""
    for name, value in document.items():
        if not (isinstance(value, Mapping) and {"command", "url"} & value.keys()):
            with suppress(Faulty):
                yield from _limits(name, value, beside=True)


def _names(lists: Iterable[object]) -> frozenset[str]:
    """Names, or objects with one."""
    items = [item for part in lists if isinstance(part, (Mapping, list)) for item in part]
    names = [item.get("serverName", item.get("name")) if isinstance(item, Mapping) else item for item in items]
    return frozenset(name for name in names if isinstance(name, str))
