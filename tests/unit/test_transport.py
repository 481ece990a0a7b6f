"""How an agent is reached: references stay, literals that may be secrets do not, in a path neither."""

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.ingest.manifest.transport import path_keys, references_only, without_path_keys

SECRET = "ghp_4f9aSecretValue0"  # noqa: S105
RANDOM, UUID = "qZ7rT2mKx9Lw4Vb8Nc3Y", "123e4567-e89b-12d3-a456-426614174000"


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
        ({"args": [f"--api-key={SECRET}"]}, {"args": ["--api-key=${api_key}"]}),
        ({"args": ["--api-key=${KEY}"]}, {"args": ["--api-key=${KEY}"]}),
        ({"args": ["-e", f"GITHUB_TOKEN={SECRET}"]}, {"args": ["-e", "GITHUB_TOKEN=${GITHUB_TOKEN}"]}),
        ({"args": ["-e", "GITHUB_TOKEN"]}, {"args": ["-e", "GITHUB_TOKEN"]}),
        (
            {"args": ["--header", f"Authorization: Bearer {SECRET}"]},
            {"args": ["--header", "Authorization: ${Authorization}"]},
        ),
        ({"args": ["--header", "Authorization:${AUTH}"]}, {"args": ["--header", "Authorization:${AUTH}"]}),
        ({"url": f"https://me:{SECRET}@host/mcp"}, {"url": "https://${USER}:${PASSWORD}@host/mcp"}),
        ({"url": f"https://host/mcp?key={SECRET}"}, {"url": "https://host/mcp?key=${key}"}),
        ({"url": "https://host/mcp?key=${KEY}"}, {"url": "https://host/mcp?key=${KEY}"}),
        ({"url": f"https://host/mcp#{SECRET}"}, {"url": "https://host/mcp"}),
        ({"url": f"https://host/mcp?{SECRET}"}, {"url": "https://host/mcp?${query}"}),
        ({"env": {"TOKEN": f"${{TOKEN:-{SECRET}}}"}}, {"env": {"TOKEN": "${TOKEN}"}}),
        ({"command": f"npx  x --token '{SECRET}' -y"}, {"command": "npx  x --token '${token}' -y"}),
        ({"args": ["server", SECRET]}, {"args": ["server", "${token}"]}),
        ({"command": f"server {SECRET}"}, {"command": "server ${token}"}),
        ({"args": ["server", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"]}, {"args": ["server", "${token}"]}),
        ({"args": ["-y", "server", RANDOM]}, {"args": ["-y", "server", "${argument_3}"]}),
        ({"args": ["server", UUID, RANDOM]}, {"args": ["server", "${argument_2}", "${argument_3}"]}),
        ({"args": ["--workspace", RANDOM]}, {"args": ["--workspace", "${workspace}"]}),
        ({"args": [f"--workspace={RANDOM}"]}, {"args": ["--workspace=${workspace}"]}),
        ({"args": ["9f86d081884c7d659a2feaa0c55ad015"]}, {"args": ["${argument_1}"]}),
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
        {"args": ["pypi-query-mcp-server", "sk-learn-mcp-server-2024", "GoogleSheetsMcpServer2024", "npm_reader"]},
        {"args": ["/srv/qZ7rT2mKx9Lw4Vb8Nc3Y", "git+https://h/a/b@9f86d081884c7d659a2feaa0c55ad01512345678"]},
        {"args": ["mcp-server-2024-11-05-beta"], "sha256": "9f86d081884c7d659a2feaa0c55ad01512345678"},
        {"args": ["--author", "ann", "--tokenizer", "bpe", "--max-tokens", "12", "--max-tokens=12"]},
        {"args": ["mcp/auth:latest", "auth.example.com:8080", "https://auth:80/x", "https://h/@scope/x"]},
        {"args": ["https://${HOST}:${PORT}/x?key=${KEY}", "Bearer ${X}", "${input:api-key}"]},
        {"env": {"A": "${env:NAME}", "B": "${input:an-id}"}, "headers": {"Authorization": "Bearer ${X}"}},
        {"command": "npx -y it's 'a b' \"c d\"", "envFile": ".env", "auth": None, "session": False},
        {"args": [1, 2.5, True]},
        {},
    ],
)
def test_what_is_no_secret_stays(transport: dict[str, object]) -> None:
    assert references_only(transport) == transport


MAPS = "env ENV Env environment env_vars environmentVariables Headers http_headers cookies stdioEnv".split()
FIELDS = (
    "password bearer cookie private_key privateKey session pwd passphrase connection_string dsn pat x-key apiKey "
    "access_token GITHUB_PAT authorization client_secret"
).split()
FLAGS = "--token --key --pat -password --connection-string --db.password --api-key".split()
STARTS = (
    *("--pat=", "--token=", "--token=-", "--header=Authorization: ", "-HAuthorization: Bearer ", "Authorization: "),
    *("-eTOKEN=", "--env=lower=", "OTHER=", "--user=me:", "https://h/?", "Server=h;Password=", "Bearer "),
)
# Each with ¤ where the secret is.
FORMS: Sequence[Mapping[str, object]] = [
    *({name: {"TOKEN": "¤"}} for name in MAPS),
    *({"x": [{name: "¤"}]} for name in FIELDS),
    *({name: "https://u:¤@h/x?a=¤&¤#¤"} for name in ("URL", "serverUrl", "x")),
    *({"args": [flag, "¤"]} for flag in FLAGS),
    *({"args": [start + "¤"]} for start in STARTS),
    {"args": ["--token", "-¤"]},
    {"args": ["-e", "lower=¤", "--env", "URL=postgres://u:¤@h", "-H", "X: ¤", "-u", "me:¤"]},
    {"args": ["postgres://u:¤@h/db", "postgres://u:a/¤@h/db", "https://¤@h"]},
    {"args": ["sh -c 'X --token ¤'", "it's --token ¤", '--config={"key": "¤"}']},
    {"args": ["--config", '{"apiKey": "¤"}', "--headers", '{"X": "¤"}']},
    {"args": '--token ¤ --x "{\\"key\\": \\"¤\\"}"'},
    {"command": "TOKEN=¤ x --token ¤ \\\n --key \\\n '¤ ¤' --pat \"¤"},
    {"env": ["TOKEN=¤", {"name": "A", "value": "¤"}, ["B", "¤"]], "headers": [{"Name": "A", "Value": "¤"}, "¤"]},
    {"arguments": [{"name": "-e", "value": "a=¤"}, {"name": "--token", "value": "¤"}]},
    {"stdio": {"env": {"A": "¤"}}, "requestInit": {"headers": {"A": ["¤"]}}, "auth": {"token": "¤", "x": ["¤"]}},
    {"env": {"A": "${A:-¤}"}, "args": ["${A:-¤}", "a${B:-${C-¤}}", "${A:-{¤"]},
    {"https://u:¤@h": 1},
]
secrets = st.text("abcXYZ0123456789-_.!+", min_size=8, max_size=24).map(lambda text: f"Q7{text}Z")


@pytest.mark.parametrize("form", FORMS, ids=str)
@given(secret=secrets)
def test_no_secret_passes(form: Mapping[str, object], secret: str) -> None:
    """Whatever the secret is, and in whichever of the forms that sources use."""
    kept = references_only(json.loads(json.dumps(form, ensure_ascii=False).replace("¤", secret)))
    assert secret not in json.dumps(kept)
    assert references_only(kept) == kept


words = st.text("abcABC/:@?&=${}-;'\"\\[ ", max_size=16).filter(lambda text: "[" not in text) | st.sampled_from(
    [
        "-e",
        "-H",
        "--token",
        "--key=",
        "${A:-b}",
        "Bearer ",
        "TOKEN=a",
        "https://u:p@h?a#b",
        '{"key": "a"}',
        "name",
        "value",
    ]
)
values = st.recursive(
    words | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(words | st.sampled_from(["env", "headers", "auth"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "env": values,
            "headers": values,
            "args": st.lists(values, max_size=4),
            "command": words,
            "x": values,
        },
    )
)
def test_references_are_made_once(transport: dict[str, object]) -> None:
    once = references_only(transport)
    assert references_only(once) == once


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://mcp.host/api/s/NjQ4OTcwYWItZTFhMi00YzI2/mcp", "https://mcp.host/api/s/${path_key}/mcp"),
        ("https://x.host/mcp/3f2b8c1e-1234-4abc-9def-0123456789ab/sse", "https://x.host/mcp/${path_key}/sse"),
        ("https://x.host/3f2b8c1e12344abc9def0123456789ab", "https://x.host/${path_key}"),
        ("https://h/sk_live_51H8xyzABCdef0123a5/mcp?a=b", "https://h/${path_key}/mcp?a=b"),
        ("https://h/eyJhbGciOiJIUzI1NiJ9xx.eyJzdWIiOiIxMjM0NTY3ODkw.Sf1KxwRJ5MeKKF2QT4fwpM", "https://h/${path_key}"),
        ("--url=https://h/NjQ4OTcwYWItZTFhMi00YzI2 -y", "--url=https://h/${path_key} -y"),
    ],
)
def test_what_is_made_by_chance_is_a_key(text: str, kept: str) -> None:
    """A token or a UUID, wherever in the path it stands; the rest of the text stays."""
    assert without_path_keys(text) == kept
    assert without_path_keys(kept) == kept
    [key] = path_keys(text)
    assert key not in kept


@pytest.mark.parametrize(
    "text",
    [
        "https://server.host/@user/some-long-name-with-digits-2024/mcp",
        "https://h/v1/projects/my-project-2024-11-05/mcp",
        "https://h/model-context-protocol-server-everything/mcp",
        "https://h/abcdefghijklmnopqrstuvwxyz/0123456789012345678901",
        "git+https://host/a/b.git@0123456789abcdef0123456789abcdef01234567",
        "https://host/Shak-Shat/Langgraph4Context7",
        "/home/ann/3f2b8c1e-1234-4abc-9def-0123456789ab",
        "https://${HOST}/${PATH_OF_IT}/mcp",
        "NjQ4OTcwYWItZTFhMi00YzI2",
    ],
)
def test_names_versions_and_files_are_none(text: str) -> None:
    assert without_path_keys(text) == text
    assert path_keys(text) == frozenset()
