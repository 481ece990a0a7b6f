"""The file in which an operator says which tools may be called: TOML, read once at the start of a gateway."""

import tomllib
from collections.abc import Collection, Mapping
from typing import Any, cast

from waygraph.registry.errors import InvalidSetting
from waygraph.registry.nearest import nearest
from waygraph.registry.paths import as_written
from waygraph.registry.policy import DESTRUCTIVE, FREE, UNANNOTATED, VERDICTS, CallPolicy, Rule, Treatment, Verdict

_KEYS = ("default", "destructive", "unannotated", "rules")
_RULE_KEYS = ("match", "source", "verdict", "reason", "groups")
MAX_REASON_CHARS = 300


def load_policy(path: str) -> CallPolicy:
    """The policy of a file; of an empty path the one that says nothing. Raises InvalidSetting."""
    if not path:
        return FREE
    try:
        text = as_written(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no UTF-8 text"
        raise InvalidSetting(f"policy file {path} cannot be read: {reason}") from exc
    try:
        return parse_policy(text)
    except InvalidSetting as exc:
        raise InvalidSetting(f"policy file {path}: {exc}") from exc


def parse_policy(text: str) -> CallPolicy:
    """Raises InvalidSetting, which names the line of what is no TOML, else the key."""
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise InvalidSetting(f"no TOML: {exc}") from exc
    _known(said, _KEYS, "")
    rules = said.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InvalidSetting("`rules` must be tables, each begun by [[rules]]")
    return CallPolicy(
        default=cast("Verdict", _choice(said, "default", VERDICTS, "allow", "")),
        destructive=cast("Treatment", _choice(said, "destructive", DESTRUCTIVE, "by_name", "")),
        unannotated=cast("Treatment", _choice(said, "unannotated", UNANNOTATED, "by_name", "")),
        rules=tuple(_rule(rule, f"rule {number}: ") for number, rule in enumerate(rules, start=1)),
    )


def _rule(said: Mapping[str, Any], where: str) -> Rule:
    _known(said, _RULE_KEYS, where)
    if "match" not in said and "source" not in said:
        raise InvalidSetting(f'{where}needs `match`, such as "github/delete_*", or `source`')
    reason = _text(said, "reason", where) if "reason" in said else ""
    return Rule(
        match=_text(said, "match", where) if "match" in said else "*",
        source=_text(said, "source", where) if "source" in said else "",
        verdict=cast("Verdict", _choice(said, "verdict", VERDICTS, None, where)),
        reason=" ".join(reason.split())[:MAX_REASON_CHARS],
        groups=_groups(said, where),
    )


def _groups(said: Mapping[str, Any], where: str) -> frozenset[str]:
    groups = said.get("groups")
    if groups is None:
        return frozenset()
    if not isinstance(groups, list) or not groups or not all(isinstance(name, str) and name for name in groups):
        raise InvalidSetting(f"{where}`groups` must be a list of names with at least one; without it all are meant")
    return frozenset(groups)


def _text(said: Mapping[str, Any], key: str, where: str) -> str:
    value = said[key]
    if not isinstance(value, str) or not value.strip():
        raise InvalidSetting(f"{where}`{key}` must be a text that is not empty, not {value!r}")
    return value.strip()


def _choice(said: Mapping[str, Any], key: str, allowed: Collection[str], default: str | None, where: str) -> str:
    value = said.get(key, default)
    if value is None:
        raise InvalidSetting(f"{where}needs `{key}`: {', '.join(allowed)}")
    if value not in allowed:
        raise InvalidSetting(f"{where}`{key}` must be one of {', '.join(allowed)}, not {value!r}")
    return str(value)


def _known(said: Mapping[str, Any], keys: Collection[str], where: str) -> None:
    for key in said:
        if key not in keys:
            near = nearest(key, keys)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            raise InvalidSetting(f"{where}`{key}` is not known; known: {', '.join(keys)}.{meant}")
