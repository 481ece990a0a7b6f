"""A taxonomy that comes from outside, such as from an export, held to what a build would give."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.identity import holds_control, is_broken, name_fault
from waygraph.registry.model.numbers import read_number, read_whole
from waygraph.registry.model.taxonomy import SEPARATOR, Taxonomy, check_taxonomy_name

MAX_TEXT_CHARS = 2_000
"""Of a category's description, and of any other text of it."""


def check_taxonomy(taxonomy: Taxonomy) -> None:
    """Of one that comes from outside: its names, texts and numbers, as a build would give them. Raises InvalidSetting,
    which quotes no text of it.
    """
    for what, noun in (("taxonomy", taxonomy), ("settings", taxonomy.settings)):
        _check_fields(noun, what)
    check_taxonomy_name(taxonomy.name)
    for number, category in enumerate(taxonomy.categories.values(), start=1):
        _check_fields(category, f"category {number}")
        own_names = [category.id] if category is taxonomy.root else [category.id, category.name]
        for fault in filter(None, map(name_fault, own_names)):
            raise InvalidSetting(f"category {number}: {fault}")
        if not all(map(_is_plain, category.holds)):
            raise InvalidSetting(f"category {number} holds what is no id of an agent or tool")
        names = [taxonomy.categories[child].name for child in category.children]
        if len(set(names)) < len(names) or any(SEPARATOR in name for name in names):
            raise InvalidSetting(f"category {number}: its children need names of their own, without {SEPARATOR!r}")


def _check_fields(noun: Any, what: str) -> None:
    """By the type that each is declared with. Raises InvalidSetting."""
    for each in fields(noun):
        fits = _FITS.get(each.type)
        if fits is not None and not fits(getattr(noun, each.name)):
            raise InvalidSetting(f"{what}: its {each.name} is of another type, out of range, too long or not plain")


def _is_plain(value: object) -> bool:
    is_text = isinstance(value, str) and len(value) <= MAX_TEXT_CHARS
    return is_text and not (holds_control(value) or is_broken(value))  # type: ignore[arg-type]


_FITS: Mapping[object, Callable[[Any], bool]] = {
    str: _is_plain,
    bool: lambda value: isinstance(value, bool),
    int: lambda value: read_whole(value, 0) is not None,
    float: lambda value: read_number(value, 0) is not None,
    tuple[str, ...]: lambda value: all(map(_is_plain, value)),
}
