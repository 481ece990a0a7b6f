"""A config's text, changed: what is not meant stays to the byte, and what cannot be changed safely is refused."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts.configs import CONFIGS, ODD, ONE_LINE
from waygraph.ingest.hosts import edit_json
from waygraph.ingest.hosts.config import MAX_BYTES, HostConfig, difference, read_config
from waygraph.ingest.hosts.hosts import HOSTS
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


@pytest.mark.parametrize("host", CONFIGS)
def test_every_line_of_before_is_still_there(host: str) -> None:
    """Comments, order and line breaks: the text only grew."""
    text = CONFIGS[host]
    after = config(host, text).with_servers({"waygraph": ENTRY}).text or ""
    kept = iter(after)
    assert all(letter in kept for letter in text), "some of the text is gone, or in another order"
    breaks = "\r\n" if "\r\n" in text else "\n"
    assert after.count("\r\n") == (after.count("\n") if breaks == "\r\n" else 0)


@pytest.mark.parametrize("host", CONFIGS)
def test_it_is_put_once(host: str) -> None:
    once = config(host, CONFIGS[host]).with_servers({"waygraph": ENTRY})
    assert once.with_servers({"waygraph": ENTRY}).text == once.text
    other = once.with_servers({"waygraph": {**ENTRY, "args": []}})
    assert other.servers["waygraph"]["args"] == []
    assert [*other.servers] == [*once.servers]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("text", [None, "", "  \n", "\ufeff"])
def test_a_config_that_is_not_there_or_empty_is_made(host: str, text: str | None) -> None:
    made = config(host, text).with_servers({"waygraph": ENTRY})
    parsed: Any = tomllib.loads(made.text or "") if host == "codex" else json.loads(made.text or "")
    assert parsed == {HOSTS[host].table: {"waygraph": ENTRY}}


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


@pytest.mark.parametrize("end", ["", '[mcp_servers.other]\nurl = "http://h"\n'])
@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_comments_around_a_table_stay(end: str, breaks: str) -> None:
    """Those behind an entry that is changed or taken out, too: they may speak of the next table."""
    before = config("codex", (NOTED + end).replace("\n", breaks))
    notes = [line for line in NOTED.splitlines() if line.startswith("#")]
    for after in (before.with_servers({"waygraph": ENTRY}), before.without_servers(["waygraph"])):
        lines = (after.text or "").splitlines()
        assert [line for line in lines if line.startswith("#")] == notes
        assert lines.index(notes[2]) + 1 == lines.index("[profiles.fast] # sk-1234567890 ]")
        assert (after.text or "").endswith((end or "# the last word\n").replace("\n", breaks))


def test_a_difference_shows_no_value_of_a_list_in_a_list() -> None:
    """Nor what stands behind a table's head; of our own entry all that will be there."""
    before = config("codex", NOTED)
    shown = "\n".join(difference(before, before.with_servers({"waygraph": ENTRY}), "waygraph"))
    assert '+command = "/opt/waygraph"' in shown
    whole = "\n".join(difference(before, config("codex", ""), "waygraph"))
    assert "[profiles.fast]" in whole
    assert "sk-" not in shown + whole


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


def test_a_file_that_is_too_long_or_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(SourceError, match="has more than 16,777,216 bytes"):
        read_config(HOSTS["cursor"], file)
    file.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(SourceError, match=r"is not UTF-8 text \(byte 7\)"):
        read_config(HOSTS["cursor"], file)


# -- any document ----------------------------------------------------------------------------------

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
    before = edit_json.parsed(text)
    found = edit_json.with_member(text, ["mcpServers"], "way graph", ENTRY)
    assert edit_json.parsed(found) == {**before, "mcpServers": {**before["mcpServers"], "way graph": ENTRY}}
    assert edit_json.parsed(edit_json.without_members(found, ["mcpServers"], ["way graph"])) == before


@given(written(), st.data())
def test_any_servers_can_be_taken_out_of_any_document(text: str, data: st.DataObject) -> None:
    before = edit_json.parsed(text)
    names = data.draw(st.lists(st.sampled_from([*before["mcpServers"], "none"]), unique=True))
    after = edit_json.parsed(edit_json.without_members(text, ["mcpServers"], names))
    kept = {name: entry for name, entry in before["mcpServers"].items() if name not in names}
    assert after == {**before, "mcpServers": kept}
