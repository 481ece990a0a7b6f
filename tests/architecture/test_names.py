"""Names and docstrings: no participles as functions, no file name twice in a layer, shapes of arrays."""

import pytest

from tests.architecture.arrays import array_functions
from tests.architecture.names import (
    headings,
    is_named_by_participle,
    participle_counts,
    participle_functions,
    shared_file_names,
    unknown_names,
)
from tests.architecture.participles import known_participles, new_participles

LEAST_DOCUMENTED = 0.8
"""Of public functions with arrays: the share whose docstring says shape and dtype."""


@pytest.mark.parametrize("name", ["told", "_asked", "held_back", "shown_to", "updated", "_undelivered", "asked_again"])
def test_participles_are_recognized(name: str) -> None:
    assert is_named_by_participle(name)


@pytest.mark.parametrize(
    "name", ["read", "embed", "put", "known_names", "read_held", "is_closed", "texts_embedded", "id"]
)
def test_verbs_predicates_and_nouns_are_no_participles(name: str) -> None:
    assert not is_named_by_participle(name)


def test_functions_are_named_by_verbs() -> None:
    """`error_message`, not `told`: a function is a verb and its object, or the noun that it returns."""
    assert participle_functions() == []


def test_no_new_name_is_a_participle() -> None:
    """A value has the name of its type. `python -m tests.architecture.participles` shortens the list of old ones."""
    assert new_participles() == []


def test_the_list_of_old_participles_is_current() -> None:
    assert known_participles() == participle_counts()


def test_no_heading_stands_inside_a_module() -> None:
    assert headings() == []


def test_names_in_comments_are_in_the_code() -> None:
    assert unknown_names() == []


def test_a_file_name_stands_once_in_a_layer() -> None:
    assert shared_file_names() == {}


def test_arrays_have_a_shape_and_a_dtype() -> None:
    functions = array_functions()
    missing = [function.where for function in functions if not function.is_documented]
    assert len(functions) > 20
    assert len(missing) <= (1 - LEAST_DOCUMENTED) * len(functions), "\n".join(missing)
