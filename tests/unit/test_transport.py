"""How an agent is reached: references stay, literals that may be secrets do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.ingest.transport import references_only

SECRET = "ghp_4f9aSecretValue0"  # noqa: S105


@pytest.mark.parametrize(
    ("transport", "kept"),
    [
        ({"env": {"TOKEN": SECRET}}, {"env": {"TOKEN": "${TOKEN}"}}),
        ({"env": {"TOKEN": "${GITHUB_TOKEN}"}}, {"env": {"TOKEN": "${GITHUB_TOKEN}"}}),
        ({"env": {"PORT": 8080}}, {"env": {"PORT": "${PORT}"}}),
        ({"headers": {"Authorization": f"Bearer {SECRET}"}}, {"headers": {"Authorization": "${Authorization}"}}),
        ({"headers": {"Authorization": "Bearer ${KEY}"}}, {"headers": {"Authorization": "Bearer ${KEY}"}}),
        ({"headers": {"X": "${A}" + SECRET}}, {"headers": {"X": "${X}"}}),
        ({"args": ["--token", SECRET]}, {"args": ["--token", "${token}"]}),
        ({"args": [f"--api-key={SECRET}"]}, {"args": ["--api-key=${api-key}"]}),
        ({"args": ["--api-key=${KEY}"]}, {"args": ["--api-key=${KEY}"]}),
        ({"args": ["-e", f"GITHUB_TOKEN={SECRET}"]}, {"args": ["-e", "GITHUB_TOKEN=${GITHUB_TOKEN}"]}),
        ({"args": ["-e", "GITHUB_TOKEN"]}, {"args": ["-e", "GITHUB_TOKEN"]}),
        (
            {"args": ["--header", f"Authorization: Bearer {SECRET}"]},
            {"args": ["--header", "Authorization: ${Authorization}"]},
        ),
        ({"args": ["--header", "Authorization:${AUTH}"]}, {"args": ["--header", "Authorization:${AUTH}"]}),
        ({"url": f"https://me:{SECRET}@host/mcp"}, {"url": "https://host/mcp"}),
        ({"url": f"https://host/mcp?key={SECRET}"}, {"url": "https://host/mcp?key=${key}"}),
        ({"url": "https://host/mcp?key=${KEY}"}, {"url": "https://host/mcp?key=${KEY}"}),
        ({"url": f"https://host/mcp#{SECRET}"}, {"url": "https://host/mcp"}),
        ({"url": "https://h", "api_key": SECRET}, {"url": "https://h", "api_key": "${api_key}"}),
    ],
)
def test_a_secret_becomes_a_reference(transport: dict[str, object], kept: dict[str, object]) -> None:
    """In variables, headers, arguments and addresses: the name stays, the value goes; a reference stays as it is."""
    assert references_only(transport) == kept


@pytest.mark.parametrize(
    "transport",
    [
        {"command": "npx", "args": ["-y", "@scope/server", "/data"]},
        {"type": "http", "url": "https://host:8080/mcp"},
        {"command": "uvx", "args": ["server", "--port", "80", "--verbose"], "cwd": "/srv"},
        {"args": ["--token", "--verbose"]},
        {"args": [1, 2.5, True]},
        {},
    ],
)
def test_what_is_no_secret_stays(transport: dict[str, object]) -> None:
    """Commands, arguments and addresses without a secret are left alone."""
    assert references_only(transport) == transport


words = st.text("abcABC/:@?&=${}- ", max_size=12)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "env": st.dictionaries(words, words, max_size=3),
            "headers": st.dictionaries(words, words, max_size=3),
            "args": st.lists(words, max_size=4),
            "command": words,
        },
    )
)
def test_references_are_made_once(transport: dict[str, object]) -> None:
    """What was made of references alone is not changed again."""
    once = references_only(transport)
    assert references_only(once) == once
