"""YAML to plain values, with a bound on what a few lines can unfold to."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import yaml

from waygraph.ingest.manifest.fields import MOST_TOLD, Note, Path, ignore_fault, repeated_names, show_pointer

MAX_DEPTH = 200
"""Before 0.2.6 libyaml ends the process at a few ten thousand."""
TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels"
MAX_UNFOLDED_CHARS = 10_000_000
"""What aliases may add: ten lines of them can stand for 10^9 values ("billion laughs")."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Unbounded(ValueError):
    """Nested too deeply, or an alias that stands for too much."""


def parse(text: str, note: Note = ignore_fault) -> object:
    """Raises yaml.YAMLError, Unbounded, ValueError for a date or number that cannot be."""
    _check(text)
    loader = LOADER(text)
    node = loader.get_single_node()
    if node is None:
        return None
    for place in islice(_repeated_keys(loader, node, (), set()), MOST_TOLD):
        note(place)
    return _with_text_keys(loader.construct_document(node))


def _repeated_keys(loader: Any, node: Any, path: Path, seen: set[int]) -> Iterator[str]:
    """JSON pointers of keys that a mapping has more than once. What an alias stands for is looked at once."""
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    items = list(enumerate(node.value)) if isinstance(node, yaml.SequenceNode) else _members(loader, node)
    if isinstance(node, yaml.MappingNode):
        yield from (show_pointer((path, name)) for name in repeated_names(str(name) for name, _ in items))
    for name, value in items:
        yield from _repeated_keys(loader, value, (path, name), seen)


def _members(loader: Any, node: Any) -> list[tuple[str, Any]]:
    """By the names that they will have. Of several `<<` each counts; a key that is no scalar is none of JSON."""
    return [
        (_text_key(loader.construct_object(key)), value)
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge")
    ]


def _with_text_keys(value: Any) -> Any:
    """Keys as JSON would have them: as numbers they would sort otherwise than as the text they become."""
    if isinstance(value, dict):
        return {_text_key(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


def _text_key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)


def _check(text: str) -> None:
    """Counts what the text unfolds to, event by event, before anything is built of it."""
    weights: dict[str, int | None] = {}
    open_nodes: list[tuple[str | None, int]] = []
    allowed = 2 * len(text) + MAX_UNFOLDED_CHARS
    for event in _events(text):
        match event:
            case yaml.CollectionStartEvent():
                open_nodes.append((event.anchor, 1))
                if len(open_nodes) > MAX_DEPTH:
                    raise Unbounded(TOO_DEEP)
                if event.anchor:
                    weights[event.anchor] = None
                continue
            case yaml.CollectionEndEvent():
                anchor, weight = open_nodes.pop()
            case yaml.ScalarEvent():
                anchor, weight = event.anchor, 1 + len(event.value)
            case yaml.AliasEvent():
                anchor, weight = None, _alias_weight(str(event.anchor), weights)
            case _:
                continue
        if anchor:
            weights[anchor] = weight
        if weight > allowed:
            raise Unbounded(f"has aliases that unfold to more than {MAX_UNFOLDED_CHARS} characters")
        if open_nodes:
            outer, so_far = open_nodes[-1]
            open_nodes[-1] = (outer, so_far + weight)


def _alias_weight(anchor: str, weights: dict[str, int | None]) -> int:
    weight = weights.get(anchor, 0)
    if weight is None:
        raise Unbounded(f"has an alias *{anchor} inside its own anchor")
    return weight


def _events(text: str) -> Iterator[Any]:
    """libyaml has a limit of depth since 0.2.6, which it meets some way ahead of the event that would meet ours."""
    try:
        yield from yaml.parse(text, Loader=LOADER)
    except yaml.MarkedYAMLError as exc:
        if "maximum nesting depth" in str(exc.problem):
            raise Unbounded(TOO_DEEP) from exc
        raise
