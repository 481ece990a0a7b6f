"""Which texts stand for an entity: a form by its name, or ScaleMCP's weighted average with weights of one's own.

`tdwa:name=.2,description=.3,questions=.5` weighs parts of a tool. Only the ratios of weights count, so that a form is
kept with weights that add up to 1.
"""

from collections.abc import Mapping

from waygraph.registry.model.errors import InvalidSetting, nearest
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.numbers import read_number, show_value

COMPONENTS = ("name", "description", "parameters", "questions", "agent")
"""Parts of a tool that can be weighed; `agent` is the name of its agent."""
TDWA: Mapping[TextForm, Mapping[str, float]] = {
    "tdwa-1": {"name": 0.2, "description": 0.2, "parameters": 0.2, "questions": 0.4},
    "tdwa-2": {"name": 0.2, "description": 0.3, "questions": 0.5},
}
"""Tool Document Weighted Average (ScaleMCP, Table 4): var-1 and var-2."""
FORMS: tuple[TextForm, ...] = ("contextual", "plain", "concat", *TDWA)
_OWN = "tdwa:"
_DIGITS = 6
_EXAMPLE = f"{_OWN}name=.2,description=.3,parameters=.2,questions=.3"


def read_form(text: object) -> TextForm:
    """The form as a registry keeps it: equal forms are equal texts. Raises InvalidSetting for one that there is not."""
    if isinstance(text, str) and text.startswith(_OWN):
        weights = _read_weights(text)
        total = sum(weights.values())
        ratios = {name: round(weights.get(name, 0.0) / total, _DIGITS) for name in COMPONENTS}
        shares = {name: share for name, share in ratios.items() if share}
        own = _OWN + ",".join(f"{name}={share:g}" for name, share in shares.items())
        return next((name for name, paper_shares in TDWA.items() if paper_shares == shares), own)
    if text not in FORMS:
        choices = f"{', '.join(FORMS)}, or weights such as {_EXAMPLE}"
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
    return TDWA.get(form) or (_read_weights(form) if form.startswith(_OWN) else None)


def _read_weights(text: str) -> dict[str, float]:
    """Raises InvalidSetting."""
    weights: dict[str, float] = {}
    for part in text.removeprefix(_OWN).split(","):
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
