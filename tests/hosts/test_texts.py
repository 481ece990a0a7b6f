"""A config's text, changed: what is not meant stays to the byte, and what cannot be changed safely is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts.configs import CONFIGS, ODD, ONE_LINE
from waygraph.ingest.hosts import edit
from waygraph.ingest.hosts.config import HostConfig, difference
from waygraph.ingest.hosts.hosts import HOSTS
from waygraph.ingest.sources.parse import json_document
from waygraph.registry.model.errors import SourceError

ENTRY = {"command": "/opt/waygraph", "args": ["--registry", "/r ö.grafeo", "mcp"], "env": {"A": "b"}}
PATH = Path("/x/mcp.json")


def config(host: str, text: str | None) -> HostConfig:
    return HostConfig(HOSTS[host], PATH, text)


@pytest.mark.parametrize("host", CONFIGS)
def test_an_entry_put_in_and_taken_out_leaves_the_text_as_it_was(host: str) -> None:
    before = config(host, CONFIGS[host])
    with_it = before.with_servers({"waygraph": ENTRY})
    assert with_it.servers == {**before.servers, "waygraph": ENTRY}
    assert with_it.others == before.others
    assert with_it.without_servers(["waygraph"]).text == before.text


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        '{"mcpServers": {}}',
        '{\n  "mcpServers": {\n    // none so far\n  }\n}\n',
        '{"x": 1,}',
        '{\n\t"x": [1,\n2] // y\n}',
        '{"mcpServers": {"a": {"command": "x"}, /* last */},}',
        '{"mcpServers": {"a": {"command": "}{,//"}}}',
        '{"a": "\\"mcpServers\\": {", "mcpServers": {"a": {"url": "http://h/\\\\"}}}',
        '{"mcpServers": 1, "mcpServers": {"a": {"command": "twice"}}}',
        ONE_LINE,
        ODD,
    ],
)
def test_any_way_of_writing_json_takes_an_entry(text: str) -> None:
    before = config("cursor", text)
    after = before.with_servers({"waygraph": ENTRY})
    assert after.servers == {**before.servers, "waygraph": ENTRY}
    assert after.without_servers(["waygraph"]).servers == before.servers
    assert after.without_servers(["a", "tides", "x"]).servers == {"waygraph": ENTRY}


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = {a = {command = "x"}}\nz = 1\n',
        'mcp_servers.a.command = "x"\n',
        '[mcp_servers]\na = {command = "x"}',
        'x = 1\r\n\r\n[mcp_servers."a b"]\r\ncommand = "x"\r\n[other]\r\ny = "z"',
        "[[list]]\nx = 1\n",
    ],
)
def test_any_way_of_writing_toml_takes_an_entry(text: str) -> None:
    before = config("codex", text)
    after = before.with_servers({"waygraph": ENTRY})
    assert after.servers == {**before.servers, "waygraph": ENTRY}
    assert after.without_servers(["waygraph"]).servers == before.servers


NOTED = """# mine
notify = [
  ["sk-1234567890"], # [profiles.x] sk-1234567890
]
text = \"\"\"a [
[sk-1234567890]
\"\"\"

[mcp_servers.waygraph] # sk-1234567890 ]
command = "old"
args = [
  ["mcp"]
]
# another = "way"

# ---- what follows is the work's ----
[profiles.fast] # sk-1234567890 ]
model = ["sk-1234567890",
  "[a]"]
# the last word
"""


def test_a_difference_shows_servers_alone() -> None:
    """Nor what stands behind a table's head; of our own entry all that will be there."""
    before = config("codex", NOTED)
    shown = "\n".join(difference(before, before.with_servers({"waygraph": ENTRY}), "waygraph"))
    assert '+  "command": "/opt/waygraph"' in shown
    assert "sk-" not in shown
    assert "profiles" not in shown


PLAIN = {
    "command": "npx",
    "args": ["-y", "@tides/server", "--port", "8080"],
    "url": "https://tides.example/mcp",
    "timeout": 30000,
}
SECRET = {
    "env": {"TIDE_KEY": "s3cr3t-one", "LOG": "s3cr3t-two"},
    "headers": {"Authorization": "Bearer s3cr3t-three"},
    "args": ["--token", "s3cr3t-four", "--tide-key=s3cr3t-five", "https://ann:s3cr3t-six@tides.example/a"],
    "url": "https://tides.example/mcp?key=s3cr3t-seven",
    "note": 8675309,
    "pin": 4711,
}


@pytest.mark.parametrize("host", ["cursor", "codex"])
def test_a_difference_shows_how_servers_are_reached_and_no_secret(host: str) -> None:
    """As far as the graph itself would keep an entry; a person sees which command goes and which stays."""
    before = config(host, "").with_servers({"tides": PLAIN, "harbour": SECRET})
    after = before.with_servers({"harbour": ENTRY}).without_servers(["tides"])
    shown = "\n".join(difference(before, after, "harbour"))
    assert '"/opt/waygraph"' in shown
    assert "s3cr3t" not in "\n".join(difference(before, before.without_servers(["tides"]), "harbour"))
    for text in ("npx", "@tides/server", "--port", "https://tides.example/mcp", "--token", "env", "harbour", "30000"):
        assert text in shown
    assert "***@tides.example/a" in shown
    assert "s3cr3t" not in shown
    assert not [number for number in ("8675309", "4711") if number in shown]


@pytest.mark.parametrize(
    ("host", "text", "reason"),
    [
        ("cursor", "{", "is not JSON (line 1, column 2)"),
        ("cursor", "[]", "is no object"),
        ("cursor", '"secret"', "is no object"),
        ("cursor", '{"mcpServers": ["secret"]}', "mcpServers is no object"),
        ("cursor", '{"mcpServers": null}', "mcpServers is no object"),
        ("cursor", "[" * 200_000, "is nested too deeply"),
        ("cursor", '{"mcpServers": ' + '{"a":' * 200_000, "is nested too deeply"),
        ("cursor", '{"a": 1} /* not closed', "is not JSON (line 1, column 10)"),
        ("codex", "a = secret", "is not TOML (line 1, column 5)"),
        ("codex", "mcp_servers = 1", "mcp_servers is no object"),
    ],
)
def test_what_cannot_be_read_is_refused_without_a_word_of_it(host: str, text: str, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        config(host, text).with_servers({"waygraph": ENTRY})
    assert str(caught.value) == f"{PATH}: {reason}"


NAMES = st.text('ab"{}/*, \\ö\n', min_size=1, max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('x"{}[]/*,:\\\n ', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def written(draw: st.DrawFn) -> str:
    """A document with servers, written in one of many ways."""
    document = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    place = draw(st.integers(0, len(document)))
    items = [*document.items()]
    items.insert(place, ("mcpServers", draw(st.dictionaries(NAMES, VALUES, max_size=3))))
    text = json.dumps(dict(items), indent=draw(st.sampled_from([None, 2, 4, "\t"])), ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = _commented(text)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def _commented(text: str) -> str:
    """A comment at the end of each line that holds no string that goes on, and a comma after each last item."""
    lines = text.split("\n")
    return "\n".join(f'{line} // {{ " , }}' for line in lines)


@given(written())
def test_any_document_takes_an_entry_and_gives_it_back(text: str) -> None:
    before = json_document(text)
    found = edit.with_member(text, ["mcpServers"], "way graph", ENTRY)
    assert json_document(found) == {**before, "mcpServers": {**before["mcpServers"], "way graph": ENTRY}}
    assert json_document(edit.without_members(found, ["mcpServers"], ["way graph"])) == before


@given(written(), st.data())
def test_any_servers_can_be_taken_out_of_any_document(text: str, data: st.DataObject) -> None:
    before = json_document(text)
    names = data.draw(st.lists(st.sampled_from([*before["mcpServers"], "none"]), unique=True))
    after = json_document(edit.without_members(text, ["mcpServers"], names))
    kept = {name: entry for name, entry in before["mcpServers"].items() if name not in names}
    assert after == {**before, "mcpServers": kept}
