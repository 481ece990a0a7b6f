"""What the audit tells of a call's arguments where they are recorded: no value that may be a secret."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.api.telemetry.audit import arguments_without_secrets
from waygraph.api.telemetry.logs import without_secrets

SECRET = "hunter2secret"  # noqa: S105
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nhunter2secret=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    "password PASSWORD db_password passphrase access_token accessToken apiKey client_secret privateKey pin".split(),
)
@pytest.mark.parametrize("value", [SECRET, f'a" {SECRET} words', [SECRET], {"value": SECRET}, [[{"a": SECRET}]], 4711])
def test_all_that_stands_under_the_name_of_a_secret_is_struck(name: str, value: Any) -> None:
    told = arguments_without_secrets({"a": [{name: value}], "text": json.dumps({"b": {name: value}})})
    assert told == {"a": [{name: "***"}], "text": json.dumps({"b": {name: "***"}})}


@pytest.mark.parametrize(
    "value",
    [
        ["--token", SECRET],
        [["Authorization", f"Bearer {SECRET}"]],
        {"name": "X-Api-Key", "value": SECRET},
        {"key": "DB_PASSWORD", "value": [SECRET]},
        f"use Bearer {SECRET}",
        f"client_secret={SECRET}",
        f"ghp_abcdefghij0123456789{SECRET}",
        f"github_pat_11ABCDEFG0123456789{SECRET}",
        f"glpat-{SECRET}",
        f"xoxb-{SECRET}",
        f"AKIAIOSFODNN7EXAMPLE{SECRET}",
        f"here: {PEM} it is",
        PEM[:60],
    ],
)
def test_what_looks_like_a_secret_is_struck(value: Any) -> None:
    told = json.dumps(arguments_without_secrets({"x": value}))
    assert "hunter2" not in told
    assert "***" in told


@pytest.mark.parametrize(
    "arguments",
    [
        {
            "query": "weather in Faro",
            "max_tokens": 12,
            "tokens_url": "https://a.example/t",
            "secret": None,
            "auth": True,
        },
        {"name": "key", "list": ["a", 1, 2.5, None, {"b": "c"}], "json": '{"a":1}'},
        {"labels": [{"key": "colour", "value": "red"}], "text": "{not json", "path": "notes/tokenizer.py"},
    ],
)
def test_the_rest_stays(arguments: dict[str, Any]) -> None:
    told = arguments_without_secrets(arguments)
    assert {**told, "json": None} == {**arguments, "json": None}


ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(ANY_JSON)
def test_any_arguments_are_told(value: Any) -> None:
    json.dumps(arguments_without_secrets({"a": value, "b": json.dumps(value)}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("db_password=hunter2 for host", "db_password=*** for host"),
        ("{'client-secret': 'hunter2'}", "{'client-secret': '***'}"),
        ('"access_token": "abc"', '"access_token": "***"'),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_***"),
        (PEM, "-----BEGIN RSA PRIVATE KEY-----*** RSA PRIVATE KEY-----"),
        ("npm_config_registry, tokenizer=wordpiece", "npm_config_registry, tokenizer=wordpiece"),
    ],
)
def test_texts_of_others_tell_no_secret_either(text: str, told: str) -> None:
    assert without_secrets(text) == told
