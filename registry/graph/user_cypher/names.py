"""Labels, relationship types and property keys in a statement that no registry has: most are slips of the pen."""

from collections.abc import Iterator, Mapping

from waygraph.registry.graph.user_cypher.allow_list import KEYWORDS, TOKEN
from waygraph.registry.model.errors import nearest

_ENTITY = "name description status pending flags tags content_hash approved_hash vector_key embedding"
_PROPERTIES = f"""
    id {_ENTITY} kind version transport visible_to bundle_hash call_name input_schema output_schema annotations
    questions namespace rank policy seen_at key hash since restricted pinned hidden removed at revision source agent_id
    tool what fields before_hash after_hash before after commit embedder embedder_spec texts schema_version applied_at
"""
KNOWN: Mapping[str, frozenset[str]] = {
    "label": frozenset("Agent Tool Source Setting Change Registry Migration".split()),
    "relationship type": frozenset({"OWNS", "CLAIMS"}),
    "property": frozenset(_PROPERTIES.split()),
}


def unknown_names(statement: str, known: Mapping[str, frozenset[str]] = KNOWN) -> str:
    """A notice of each unknown name, with the nearest known one; empty if there is none."""
    notices = []
    for kind, name in dict.fromkeys(_names(statement)):
        if name not in known[kind]:
            near = nearest(name, known[kind])
            meant = f"; did you mean {near[0]}?" if near else ""
            notices.append(f"no {kind} of this registry is called {name!r}{meant}")
    return " ".join(notices)


def _names(statement: str) -> Iterator[tuple[str, str]]:
    """All names of patterns, and the properties of the variables that patterns bind: other maps have own keys."""
    tokens = [(found.lastgroup or "", found[0]) for found in TOKEN.finditer(statement)]
    tokens = [(kind, text.strip("`")) for kind, text in tokens if kind not in ("space", "comment")]
    opened: list[str] = []
    bound: set[str] = set()
    place = ""
    for at, (kind, text) in enumerate(tokens):
        before = tokens[at - 1] if at else ("", "")
        if kind == "mark" and text in "([{":
            opened.append(text if text == "{" or _begins_pattern(text, before) else "")
            place = ""
        elif kind == "mark" and text in ")]}":
            opened = opened[:-1]
            place = ""
        elif kind in ("word", "quoted"):
            inside = opened[-1] if opened else ""
            after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
            if inside in ("(", "[") and before[1] == inside:
                bound.add(text)
            if place and before[1] in ":|&!":
                yield place, text
            is_key = inside == "{" and opened[-2:-1] in (["("], ["["]) and after == ":"
            if is_key or (before[1] == "." and tokens[at - 2][1] in bound and after != "("):
                yield "property", text
        elif text == ":" and opened and opened[-1] in ("(", "["):
            place = "label" if opened[-1] == "(" else "relationship type"


def _begins_pattern(mark: str, before: tuple[str, str]) -> bool:
    """A call's bracket stands behind its name, a list's behind anything but a dash."""
    if mark == "[":
        return before[1] == "-"
    return before[0] not in ("word", "quoted") or before[1].upper() in KEYWORDS
