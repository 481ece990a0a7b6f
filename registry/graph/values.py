"""What may be stored, the same on every engine; checked before a statement runs."""

from waygraph.registry.errors import EngineError

MAX_TEXT_CHARS = 16 * 1024 * 1024
_PLAIN = (str, int, float, bool, type(None), list, dict)
_IDS = frozenset({"id", "agent_id", "source", "name"})
_ID_LISTS = frozenset({"ids", "agent_ids"})


def check_values(params: dict[str, object]) -> None:
    """Raises EngineError for an id that is no non-empty string, and for a value that an engine cannot keep.

    Grafeo finds '1' for 1, and MERGE on a null id makes a node without one; Neo4j would keep a duration.
    """
    for name, value in params.items():
        rows = value if isinstance(value, list) else [{name: value}]
        for row in rows:
            if name in _ID_LISTS:
                _check_id(row, name)
            elif isinstance(row, dict):
                _check_row(row, name)


def _check_row(row: dict[str, object], name: str) -> None:
    for key, value in row.items():
        if key in _IDS:
            _check_id(value, name)
        for held in value.values() if isinstance(value, dict) else (value,):
            _check_value(held, name)


def _check_id(found: object, name: str) -> None:
    if not (isinstance(found, str) and found):
        raise EngineError(f"an id must be a non-empty string, not {found!r} (in ${name})")


def _check_value(value: object, name: str) -> None:
    if not isinstance(value, _PLAIN):
        raise EngineError(f"a value of type {type(value).__name__} cannot be stored (in ${name})")
    if isinstance(value, str):
        if len(value) > MAX_TEXT_CHARS:
            raise EngineError(f"a text of {len(value):,} characters is too long to be stored (in ${name})")
        if not value.isascii():
            _check_text(value, name)


def _check_text(value: str, name: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise EngineError(f"a text that is no valid Unicode cannot be stored (in ${name}): {exc}") from exc
