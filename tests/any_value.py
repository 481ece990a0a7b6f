"""Whatever stands in a document: JSON, and what YAML can hold beside it."""

from typing import Any

from hypothesis import strategies as st

_OF_YAML: st.SearchStrategy[Any] = st.dates() | st.binary(max_size=3) | st.builds(set)


def any_value(*, longest_text: int = 10, max_leaves: int = 8) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=longest_text) | _OF_YAML,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=max_leaves,
    )
