"""YAML to plain values, by the core schema of YAML 1.2, with a bound on what a few lines can unfold to.

`no`, `on`, `12:30`, `1_000` and dates are texts. So are digits after a zero, such as `0123`: a number would lose the
zero. Keys are texts, as they are written. Merge keys (`<<`) are read as in YAML 1.1, since documents use them.
"""

import re
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

import yaml

from waygraph.registry.model.foreign_text import MAX_DEPTH, TOO_DEEP, UnboundedText

MAX_UNFOLDED_CHARS = 10_000_000
"""What aliases may add: ten lines of them can stand for 10^9 values ("billion laughs")."""

if TYPE_CHECKING:
    _Parser = yaml.SafeLoader
else:
    _Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_NULL = (f"{_TAG}null", re.compile(r"(~|null|Null|NULL|)\Z"))
_BOOL = (f"{_TAG}bool", re.compile(r"(true|True|TRUE|false|False|FALSE)\Z"))
_INT = (f"{_TAG}int", re.compile(r"([-+]?(0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)\Z"))
_FLOAT = (
    f"{_TAG}float",
    re.compile(
        r"([-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"
    ),
)


def _bool(_loader: Any, node: Any) -> bool:
    """Raises ValueError."""
    if node.value.lower() not in ("true", "false"):
        raise ValueError(f"!!bool is true or false, not {node.value[:40]!r}")
    return bool(node.value.lower() == "true")


def _int(_loader: Any, node: Any) -> int:
    """Raises ValueError."""
    return int(node.value, {"0o": 8, "0x": 16}.get(node.value[:2], 10))


def _float(_loader: Any, node: Any) -> float:
    """Raises ValueError."""
    return float(re.sub(r"\.(?=[in])", "", node.value.lower()))


class _CoreLoader(_Parser):
    """Knows the tags of the core schema. Dates and bytes stay the text that they are in JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's form: by the first character
        **{first: [_NULL] for first in ("", "~", "n", "N")},
        **{first: [_BOOL] for first in "tTfF"},
        **{first: [_INT, _FLOAT] for first in "-+.0123456789"},
        "<": [(_MERGE, re.compile(r"<<\Z"))],
    }
    yaml_constructors = {  # noqa: RUF012
        **{f"{_TAG}{name}": _Parser.construct_yaml_str for name in ("str", "timestamp", "binary", "merge")},
        f"{_TAG}null": _Parser.construct_yaml_null,
        f"{_TAG}bool": _bool,
        f"{_TAG}int": _int,
        f"{_TAG}float": _float,
        f"{_TAG}seq": _Parser.construct_yaml_seq,
        f"{_TAG}map": _Parser.construct_yaml_map,
        None: _Parser.construct_undefined,
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "found a key that is no text", key.start_mark)
            if key.tag == _MERGE and not _is_merged(value):
                key.tag = f"{_TAG}str"
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


def _is_merged(value: Any) -> bool:
    """Whether it is what a merge key takes in: an object, or a list of them."""
    parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return all(isinstance(part, yaml.MappingNode) for part in parts)


def parse(text: str) -> object:
    """Raises yaml.YAMLError, UnboundedText, ValueError for a number that cannot be."""
    _check(text)
    loader = _CoreLoader(text)
    return loader.get_single_data()


def _check(text: str) -> None:
    """Counts what the text unfolds to, event by event, before anything is built of it."""
    weights: dict[str, int | None] = {}
    open_nodes: list[tuple[str | None, int]] = []
    most_weight = 2 * len(text) + MAX_UNFOLDED_CHARS
    for event in _events(text):
        match event:
            case yaml.CollectionStartEvent():
                open_nodes.append((event.anchor, 1))
                if len(open_nodes) > MAX_DEPTH:
                    raise UnboundedText(TOO_DEEP)
                if event.anchor:
                    weights[event.anchor] = None
                continue
            case yaml.CollectionEndEvent():
                anchor, weight = open_nodes.pop()
            case yaml.ScalarEvent():
                anchor, weight = event.anchor, 1 + len(event.value)
            case yaml.AliasEvent():
                name = str(event.anchor)
                if (anchor_weight := weights.get(name, 0)) is None:
                    raise UnboundedText(f"has an alias *{name} inside its own anchor")
                anchor, weight = None, anchor_weight
            case _:
                continue
        if anchor:
            weights[anchor] = weight
        if weight > most_weight:
            raise UnboundedText(f"has aliases that unfold to more than {MAX_UNFOLDED_CHARS} characters")
        if open_nodes:
            outer, so_far = open_nodes[-1]
            open_nodes[-1] = (outer, so_far + weight)


def _events(text: str) -> Iterator[Any]:
    """libyaml has a limit of depth since 0.2.6, which it meets some way ahead of the event that would meet ours."""
    try:
        yield from yaml.parse(text, Loader=_CoreLoader)
    except yaml.MarkedYAMLError as exc:
        if "maximum nesting depth" in str(exc.problem):
            raise UnboundedText(TOO_DEEP) from exc
        raise
