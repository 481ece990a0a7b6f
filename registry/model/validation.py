"""What callers hand in, checked where it enters: queries, settings of operators, limits and cursors."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol, get_args

from waygraph.registry.model.errors import InvalidQuery, InvalidSetting, nearest
from waygraph.registry.model.identity import holds_control, is_broken, replace_surrogates
from waygraph.registry.model.nouns import AGENT_KINDS, CallOutcome, Filters, Query, TextForm, Turn, TurnRole, is_status
from waygraph.registry.model.numbers import read_number, read_whole, show_value

# What pydantic found wrong with an input, in the words of everything else here: what is expected, and no jargon.


_KINDS: Mapping[str, str] = {
    "string": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "tuple": "a list", "dict": "an object", "mapping": "an object", "model": "an object", "dataclass": "an object",
}  # fmt: skip
"""By the first word of the type of an error that tells of another type."""
_EXPECTATIONS: Mapping[str, str] = {
    "finite_number": "a finite number",
    "none_required": "null",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number from {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number up to {le}",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
    "string_too_short": "a text of {min_length} or more characters",
    "string_too_long": "a text of {max_length} or fewer characters",
    "string_pattern_mismatch": "a text that matches {pattern}",
}
"""By the type of an error, https://docs.pydantic.dev/latest/errors/validation_errors/."""
_OTHERS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "unexpected_keyword_argument": "is not known",
    "value_error": "{error}",
}


def reason_of(fault: Mapping[str, Any]) -> str:
    """Of one of the errors that a ValidationError or a RequestValidationError tells."""
    kind, facts = fault["type"], fault.get("ctx") or {}
    if kind in _OTHERS:
        return _fill_text(_OTHERS[kind], facts) or fault["msg"]
    expectation = _fill_text(_EXPECTATIONS.get(kind) or _KINDS.get(kind.partition("_")[0], ""), facts)
    return f"expected {expectation}" if expectation else fault["msg"]


def _fill_text(words: str, facts: Mapping[str, Any]) -> str:
    """Empty where the facts are left out."""
    try:
        return words.format_map(
            {name: f"{fact:g}" if isinstance(fact, float) else fact for name, fact in facts.items()}
        )
    except KeyError:
        return ""


FILTER_LISTS: Mapping[str, str] = {
    "tag": "tags",
    "kind": "kinds",
    "agent": "agent_ids",
    "without_tag": "without_tags",
    "without_kind": "without_kinds",
    "without_agent": "without_agent_ids",
}
"""Parameter of a path → the field of Filters whose values it gives, one each time."""


MAX_TURNS = 200
MAX_TURN_CHARS = 8_000
"""Of the text and of the result of one turn, each."""
MAX_HISTORY_CHARS = 64_000
"""Of all texts and results of a history."""


class Limits(Protocol):
    """Those of the settings that a query keeps to."""

    @property
    def max_query_chars(self) -> int: ...


def check_query(query: str | Query, limits: Limits | None = None) -> Query:
    """A query that can be asked. `limits` None: another one says how long it may be.

    Half of a surrogate pair becomes `?`: no UTF-8 can hold it, so no model and no server can be sent it.

    Raises InvalidQuery.
    """
    full_query = query if isinstance(query, Query) else as_query(query)
    given_steps: object = full_query.steps
    if isinstance(given_steps, str) or not isinstance(given_steps, Iterable):
        raise InvalidQuery("steps take several texts, not one")
    steps, filters = tuple(full_query.steps), checked_filters(full_query.filters)
    texts = (*steps, full_query.text) if full_query.text or not steps else steps
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InvalidQuery("a query needs a text, or steps that each hold one")
    if limits is not None and max(map(len, texts)) > limits.max_query_chars:
        raise InvalidQuery(f"a query has at most {limits.max_query_chars} characters (WAYGRAPH_MAX_QUERY_CHARS)")
    check_limit(full_query.limit)
    history = _checked_history(full_query.history, limits) if full_query.history != () else ()
    text, steps = replace_surrogates(full_query.text or ""), tuple(map(replace_surrogates, steps))
    same = (
        text == full_query.text
        and steps == full_query.steps
        and filters is full_query.filters
        and history is full_query.history
    )
    return full_query if same else replace(full_query, text=text, steps=steps, filters=filters, history=history)


def read_history(turns: object) -> tuple[Turn, ...]:
    """Turns as JSON has them. Raises InvalidQuery, which tells the turn by its number from 1, and quotes nothing."""
    if not isinstance(turns, list):
        raise InvalidQuery("a history is a list of turns, oldest first")
    return tuple(_read_turn(turn, at) for at, turn in enumerate(turns, start=1))


def _read_turn(turn: object, at: int) -> Turn:
    names = [each.name for each in fields(Turn)]
    if not isinstance(turn, Mapping):
        raise InvalidQuery(f"turn {at} of the history: expected an object of {', '.join(names)}")
    if turn.keys() - set(names):
        raise InvalidQuery(f"turn {at} of the history holds an unknown field; a turn has {', '.join(names)}")
    if "role" not in turn:
        raise InvalidQuery(f"turn {at} of the history: `role` is missing")
    return _checked_turn(Turn(**turn), at)


def _checked_history(history: object, limits: Limits | None) -> tuple[Turn, ...]:
    """Raises InvalidQuery, which tells the turn by its number from 1, and quotes nothing of it."""
    if isinstance(history, (str, Turn)) or not isinstance(history, Sequence):
        raise InvalidQuery("a history takes several turns, oldest first")
    if limits is not None and len(history) > MAX_TURNS:
        raise InvalidQuery(f"a history has at most {MAX_TURNS} turns")
    turns = tuple(_checked_turn(turn, at) for at, turn in enumerate(history, start=1))
    if limits is None:
        return turns
    for at, turn in enumerate(turns, start=1):
        if max(len(turn.text), len(turn.result)) > MAX_TURN_CHARS:
            most = f"at most {MAX_TURN_CHARS} characters"
            raise InvalidQuery(f"turn {at} of the history: its text and its result have {most} each")
    if sum(len(turn.text) + len(turn.result) for turn in turns) > MAX_HISTORY_CHARS:
        raise InvalidQuery(f"a history has at most {MAX_HISTORY_CHARS} characters in all its turns")
    return turns


def _checked_turn(turn: object, at: int) -> Turn:
    """Without halves of surrogate pairs. Raises InvalidQuery."""
    where = f"turn {at} of the history"
    if not isinstance(turn, Turn):
        raise InvalidQuery(f"{where} is a Turn, not {type(turn).__name__}")
    for name, words in {"role": get_args(TurnRole), "outcome": get_args(CallOutcome)}.items():
        if getattr(turn, name) not in words:
            raise InvalidQuery(f"{where}: {name} is one of {', '.join(words)}")
    for name in ("text", "tool", "result"):
        if not isinstance(getattr(turn, name), str):
            raise InvalidQuery(f"{where}: {name} takes a text")
    if (turn.role == "call") != bool(turn.tool.strip()):
        raise InvalidQuery(f"{where}: a call names its tool, and nothing else does")
    if len(turn.tool) > MAX_NAME_CHARS:
        raise InvalidQuery(f"{where}: the name of a tool has at most {MAX_NAME_CHARS} characters")
    text, result = replace_surrogates(turn.text), replace_surrogates(turn.result)
    return turn if (text, result) == (turn.text, turn.result) else replace(turn, text=text, result=result)


def as_query(query: object, limit: int | None = None, agent_ids: Sequence[str] | None = None) -> Query:
    """Its `limit` and ids of agents overruled by these. Filters without an id allow all agents; a list of none can only
    be a mistake. Raises InvalidQuery.
    """
    full_query = Query(text=query) if isinstance(query, str) else query
    if not isinstance(full_query, Query):
        raise InvalidQuery(f"a query is a text or a Query, not {type(query).__name__}")
    if limit is not None:
        full_query = replace(full_query, limit=limit)
    if agent_ids is None:
        return full_query
    if isinstance(agent_ids, str) or not agent_ids:
        raise InvalidQuery(f"agent_ids takes a list of ids, or None for all agents, not {agent_ids!r}")
    return replace(full_query, filters=replace(checked_filters(full_query.filters), agent_ids=tuple(agent_ids)))


def check_limit(limit: object) -> None:
    """Raises InvalidQuery."""
    if not isinstance(limit, int) or read_whole(limit, 1) is None:
        raise InvalidQuery(f"limit must be a whole number from 1 up, not {show_value(limit)}")


def checked_texts(texts: object) -> TextForm | None:
    """As a registry keeps them; None is no choice. Raises InvalidSetting for a form of texts that there is not."""
    return None if texts is None else read_form(texts)


def refuse_other_texts(texts: TextForm | None, registry_texts: TextForm) -> None:
    """Raises InvalidSetting for texts that are chosen, and are not those that a registry holds vectors of."""
    if checked_texts(texts) not in (None, registry_texts):
        raise InvalidSetting(
            f"this registry's vectors are of {registry_texts} texts. "
            f"To have {texts} ones run `waygraph reindex --texts {texts}`."
        )


def check_policy(policy: object) -> None:
    """Raises InvalidSetting for a policy that there is not; None is no choice."""
    if policy is None:
        return
    from waygraph.registry.model.changes import Policy  # not needed to ask

    if policy not in get_args(Policy):
        raise InvalidSetting(f"policy must be one of {', '.join(get_args(Policy))}, not {policy!r}")


def setting_changes(
    *,
    tags: Sequence[str] | None,
    visible_to: Sequence[str] | None,
    everyone: bool,
    pinned: bool | None,
    hidden: bool | None,
    removed: bool | None,
) -> dict[str, object]:
    """The fields of OperatorSettings that are to change, as they are to be. Raises InvalidSetting."""
    flags = {"pinned": pinned, "hidden": hidden, "removed": removed}
    for name, value in {**flags, "everyone": everyone}.items():
        if not (value is None or isinstance(value, bool)):
            raise InvalidSetting(f"{name} is True or False, not {value!r}")
    if everyone and visible_to is not None:
        raise InvalidSetting("visible_to names groups and `everyone` takes them back: choose one")
    changes: dict[str, object] = {name: value for name, value in flags.items() if value is not None}
    if tags is not None:
        changes["tags"] = checked_names("tags", tags)
    if everyone:
        changes["visible_to"] = None
    elif visible_to is not None:
        changes["visible_to"] = names = checked_names("visible_to", visible_to)
        if not names:
            raise InvalidSetting("visible_to needs at least one group; `everyone` takes the restriction away")
    return changes


def checked_statuses(statuses: Mapping[str, str]) -> None:
    """Raises InvalidSetting for a text that is no status."""
    for agent_id, status in statuses.items():
        if not is_status(status):
            raise InvalidSetting(
                f"{status!r} is no status (of {agent_id}); it is known, online, "
                "`unreachable since TIME: REASON` or `failing: REASON`"
            )


def checked_filters(filters: Filters) -> Filters:
    """The filters with each field a tuple, as they are compared and cached. Raises InvalidQuery."""
    if not isinstance(filters, Filters):
        raise InvalidQuery(f"filters are Filters, not {type(filters).__name__}")
    if not isinstance(filters.reachable, bool):
        raise InvalidQuery(f"reachable is True or False, not {filters.reachable!r}")
    checked_path(filters.within)
    if not isinstance(filters.toolset, str) or len(filters.toolset) > MAX_NAME_CHARS or is_broken(filters.toolset):
        raise InvalidQuery(f"a toolset is named by a text of at most {MAX_NAME_CHARS} characters")
    lists: dict[str, Any] = {
        name: _tuple_of(name, value) for name in FILTER_LISTS.values() if (value := getattr(filters, name)) != ()
    }
    if not lists:
        return filters
    kinds = (kind for name in ("kinds", "without_kinds") for kind in lists.get(name, ()))
    for unknown in (kind for kind in kinds if kind not in AGENT_KINDS):
        raise InvalidQuery(f"kinds of filters are {', '.join(AGENT_KINDS)}, not {unknown!r}")
    return replace(filters, **lists)


def checked_path(path: object) -> str:
    """Of a category. Raises InvalidQuery."""
    if not isinstance(path, str) or len(path) > MAX_NAME_CHARS or is_broken(path):
        raise InvalidQuery(f"a category is a path of at most {MAX_NAME_CHARS} characters, such as travel/flights")
    return path


def _tuple_of(name: str, values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        kind = "one text" if isinstance(values, str) else repr(values)
        raise InvalidQuery(f"{name} of filters take a list, not {kind}")
    items = tuple(values)
    for value in items:
        if not isinstance(value, str) or is_broken(value):
            raise InvalidQuery(f"{name} of filters hold texts, not {value!r}")
    return items


def checked_names(field: str, names: Sequence[str]) -> tuple[str, ...]:
    """Sorted, without repeats. Raises InvalidSetting."""
    is_list = isinstance(names, Iterable) and not isinstance(names, str)
    values = tuple(names) if is_list else ()  # what gives its names but once is read once
    if not is_list or not all(isinstance(name, str) and name.strip() for name in values):
        raise InvalidSetting(f"{field} takes a list of names, none of them empty, not {show_value(values or names)}")
    if any(len(name) > MAX_NAME_CHARS for name in values):
        raise InvalidSetting(f"{field} holds a name of more than {MAX_NAME_CHARS} characters")
    if any(map(is_broken, values)):
        raise InvalidSetting(f"{field} holds half of a surrogate pair, which no engine can keep")
    if any(map(holds_control, values)):
        raise InvalidSetting(f"{field} must not hold control characters: {show_value(values)}")
    return tuple(sorted(set(values)))


MAX_PART = 1000
"""Of a list, or of matches, in one answer."""
MAX_ID_CHARS = 256
"""Of an agent's id, of a call name."""
MAX_NAMES = 1000
"""Of what is approved at once, and of the values of a filter."""
MAX_NAME_CHARS = 512
"""Of a source's name, a tag, a group."""


def cursor(after: str) -> str:
    """Of the id after which the list goes on; empty if it does not."""
    return urlsafe_b64encode(after.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def after(text: str) -> str:
    """The id that a cursor stands for. Raises InvalidQuery for a text that is none."""
    try:
        base64_text = text.encode("ascii") + b"=" * (-len(text) % 4)
        entity_id = urlsafe_b64decode(base64_text).decode("utf-8", "surrogatepass")
    except ValueError:
        entity_id = ""
    if cursor(entity_id) != text:  # the decoder passes over what is no base64
        raise InvalidQuery("this cursor is not one that a list ended with")
    return entity_id


# Which texts stand for an entity: a form by its name, or ScaleMCP's weighted average with weights of one's own, such as
# `tdwa:name=.2,description=.3,questions=.5`. Only the ratios of weights count: they are kept so that they add up to 1.


COMPONENTS = ("name", "description", "parameters", "questions", "agent")
"""Parts of a tool that can be weighed; `agent` is the name of its agent."""
TDWA: Mapping[TextForm, Mapping[str, float]] = {
    "tdwa-1": {"name": 0.2, "description": 0.2, "parameters": 0.2, "questions": 0.4},
    "tdwa-2": {"name": 0.2, "description": 0.3, "questions": 0.5},
}
"""Tool Document Weighted Average (ScaleMCP, Table 4): var-1 and var-2."""
FORMS: tuple[TextForm, ...] = ("contextual", "plain", "concat", *TDWA)
_OWN_FORM = "tdwa:"
_SHARE_DIGITS = 6
_EXAMPLE_FORM = f"{_OWN_FORM}name=.2,description=.3,parameters=.2,questions=.3"


def read_form(text: object) -> TextForm:
    """The form as a registry keeps it: equal forms are equal texts. Raises InvalidSetting for one that there is not."""
    if isinstance(text, str) and text.startswith(_OWN_FORM):
        weights = _read_weights(text)
        total = sum(weights.values())
        ratios = {name: round(weights.get(name, 0.0) / total, _SHARE_DIGITS) for name in COMPONENTS}
        shares = {name: share for name, share in ratios.items() if share}
        own = _OWN_FORM + ",".join(f"{name}={share:g}" for name, share in shares.items())
        return next((name for name, paper_shares in TDWA.items() if paper_shares == shares), own)
    if text not in FORMS:
        choices = f"{', '.join(FORMS)}, or weights such as {_EXAMPLE_FORM}"
        raise InvalidSetting(f"texts must be one of {choices}; not {show_value(text)}")
    return str(text)


def is_form(text: object) -> bool:
    """Whether a registry may hold it: a form as `read_form` gives it."""
    try:
        return read_form(text) == text
    except InvalidSetting:
        return False


def weights_of(form: TextForm) -> Mapping[str, float] | None:
    """Component → its weight; None for a form that weighs nothing."""
    return TDWA.get(form) or (_read_weights(form) if form.startswith(_OWN_FORM) else None)


def _read_weights(text: str) -> dict[str, float]:
    """Raises InvalidSetting."""
    weights: dict[str, float] = {}
    for part in text.removeprefix(_OWN_FORM).split(","):
        name, equals, number = (each.strip() for each in part.partition("="))
        if name not in COMPONENTS:
            hint = "".join(f" Did you mean {each!r}?" for each in nearest(name, COMPONENTS, 1))
            choices = f"the components are {', '.join(COMPONENTS)}"
            raise InvalidSetting(f"texts {show_value(text)}: {choices}, not {show_value(name)}.{hint}")
        if name in weights:
            raise InvalidSetting(f"texts {show_value(text)}: {name!r} stands there twice")
        weight = _read_weight(number) if equals else None
        if weight is None:
            raise InvalidSetting(f"texts {show_value(text)}: {name!r} needs a weight from 0 to 1000, such as {name}=.2")
        weights[name] = weight
    if not any(weights.values()):
        raise InvalidSetting(f"texts {show_value(text)}: one weight at least must be above 0")
    return weights


def _read_weight(number: str) -> float | None:
    try:
        return read_number(float(number), 0, 1000)
    except ValueError:
        return None
