"""Text to terms: identifiers split, words stemmed, every script searchable, any text a valid query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.index.analyser import fold, fold_path, names_in, query_terms, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list_pull_requests", ["list", "pull", "request"]),
        ("listPullRequests", ["list", "pull", "request"]),
        ("list-pull-requests", ["list", "pull", "request"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("getURL", ["get", "url"]),
        ("GPT4Turbo", ["gpt4", "turbo"]),
        ("Übergrößen", ["übergrössen"]),
        ("ميناء السفن", ["ميناء", "السفن"]),
        ("ﬁle", ["file"]),
        ("ＡＢＣ", ["abc"]),
        ("don't", ["don", "t"]),
        ("🚢 ⚓", []),
        ("", []),
    ],
)
def test_words_and_identifiers_become_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_one_identifier_is_found_however_it_is_written() -> None:
    """snake_case, camelCase, kebab-case and plain words give the same terms."""
    assert (
        terms("create_new_issue") == terms("createNewIssue") == terms("create-new-issue") == terms("Create new issues")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("天気予報", ["天気", "気予", "予報"]), ("港", ["港"]), ("날씨", ["날씨"]), ("天気API", ["天気", "api"])],
)
def test_text_without_spaces_becomes_pairs(text: str, expected: list[str]) -> None:
    """Chinese, Japanese and Korean runs as bigrams, single characters as they are."""
    assert terms(text) == expected


def test_repeats_count_in_a_text_and_not_in_a_query() -> None:
    assert terms("read read read") == ["read"] * 3
    assert query_terms("read READ reading") == ("read",)


def test_stop_words_are_left_out_of_queries_only() -> None:
    """`the` is no telling word of a request, but stands in documents; a query of stop words holds no term."""
    assert query_terms("please show me the weather in the city") == ("show", "weather", "citi")
    assert query_terms("what is it") == ()
    assert "the" in terms("the weather")


@given(st.text(st.characters(), max_size=200))
def test_any_text_can_be_analysed(text: str) -> None:
    for term in (*terms(text), *query_terms(text)):
        assert term
        assert term.split() == [term]
        assert len(term) <= 64 * 3
    assert all(names_in(text))


@pytest.mark.parametrize(
    "name", ["Harbor Git", "harbor-git", "harbor_git", "harborGit", "HARBOR.GIT", "harbor: git", "harbor  git"]
)
def test_a_name_folds_to_one_form(name: str) -> None:
    assert fold(name) == "harborgit"


def test_a_path_keeps_its_slash() -> None:
    """`agent/tool` folds part by part, so that no agent's name runs into a tool's."""
    assert fold_path("Harbor Git", "list_all") == "harborgit/listall"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Harbor Git", ["harborgit"]),
        ("  Harbor Git?!", ["harborgit"]),
        ("use 'Harbor Git' for this", ["use'harborgit'forthis", "harborgit"]),
        ("use «Harbor Git» now", ["use«harborgit»now", "harborgit"]),
        ("call list_all now", ["calllistallnow", "listall"]),
        ("call listAll now", ["calllistallnow", "listall"]),
        ("with git/list_all", ["withgit/list_all", "withgit/listall", "git/list_all", "git/listall"]),
        ("search for ships", ["searchforships"]),
    ],
)
def test_what_a_text_may_name(text: str, expected: list[str]) -> None:
    """The whole of it, quotations, and words written like identifiers; no plain word of a sentence."""
    found = names_in(text)
    assert found[-1] == expected[-1] or set(expected) <= set(found)
    assert ("search" in found) is False
