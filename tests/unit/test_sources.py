"""Files, folders, globs and standard input: what is read, what is refused and where, and what costs only itself."""

import io
import json
import math
import os
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from waygraph.api.cli.commands.toolset import _read
from waygraph.ingest.execution.services import load_services
from waygraph.ingest.hosts.config import read_config
from waygraph.ingest.hosts.hosts import HOSTS
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.kinds import BUILT_IN_KINDS
from waygraph.ingest.sources.read import Reading, list_stream, read_listing, read_path
from waygraph.ingest.sources.yaml_text import MAX_UNFOLDED_CHARS, parse
from waygraph.registry.access.policy import load_policy
from waygraph.registry.model.errors import InvalidSetting, SourceError
from waygraph.registry.model.foreign_text import MAX_DEPTH, toml_document
from waygraph.registry.model.settings import Settings

S = Settings()
GOOD = {"waygraph": 1, "agents": [{"id": "good", "tools": [{"name": "run"}]}]}


def read_stream(content: bytes, settings: Settings, *, source: str = "", kind: str = "") -> list[Manifest]:
    listing = list_stream(io.BytesIO(content), settings.max_source_bytes + 1, source=source)
    return read_listing(listing, Reading(settings=settings, kind=kind))


def read(path: Path | str, **options: str) -> Manifest:
    [manifest] = read_path(str(path), S, **options)
    return manifest


def written(folder: Path, content: object, name: str = "source.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def refused(path: Path | str, settings: Settings = S, **options: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read_path(str(path), settings, **options)
    return caught.value


def keys(manifest: Manifest) -> list[str]:
    return [entry.key for entry in manifest.entries]


def reasons(manifest: Manifest) -> dict[str, str]:
    """JSON pointer → reason of what was rejected."""
    return {rejected.where.rpartition("#")[2]: rejected.reason for rejected in manifest.rejected}


@pytest.mark.parametrize(("name", "content"), [("a.yaml", ""), ("a.yaml", "# \n"), ("a.jsonl", ""), ("a.json", "")])
def test_an_emptied_file_takes_no_agent_away(tmp_path: Path, name: str, content: str) -> None:
    """It may be half written: as long as it cannot be read, its folder is not known whole."""
    written(tmp_path, GOOD, "good.json")
    written(tmp_path, content, name)
    manifest = read(tmp_path)
    assert (keys(manifest), manifest.partial) == (["good"], True)


def test_one_page_of_a_list_is_none(tmp_path: Path) -> None:
    manifest = read(written(tmp_path, {"result": {"tools": [{"name": "a"}], "nextCursor": "p2"}}, "box.json"))
    assert (keys(manifest), manifest.partial) == ([], False)
    [rejected] = manifest.rejected
    assert rejected.key == "box"
    assert rejected.where.endswith("#/result/nextCursor")
    assert "half a list is none" in rejected.reason


def test_a_benchmark_file_has_an_agent_for_each_server(tmp_path: Path) -> None:
    document = [
        {
            "name": "Search",
            "description": "Finds",
            "category": "web",
            "config": {"mcpServers": {"search": {"command": "npx", "args": ["search"]}}},
            "tools": {"search": {"tools": [{"name": "find", "inputSchema": {"type": "object"}}]}, "other": 5},
        },
        {"tools": None},
    ]
    manifest = read(written(tmp_path, document))
    assert keys(manifest) == ["search"]
    assert manifest.entries[0].agent.tags == ("web",)
    assert reasons(manifest) == {
        "/0/tools/other/tools": "expected a list of tools",
        "/1": "expected an entry with `tools: {server key: {…}}`",
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is not JSON: Expecting value at line 1, column 1"),
        ("{", "is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"a": 1,,}', "is not JSON"),
        ("hello", "is not JSON"),
        ("[" * 200_000, "is nested too deeply"),
        ("9" * 5_000, "Exceeds the limit"),
        ('{"tools": [' + "9" * 5_000 + "]}", "Exceeds the limit"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(tmp_path: Path, content: str, reason: str) -> None:
    path = written(tmp_path, content)
    error = refused(path)
    assert error.where == str(path)
    assert reason in error.reason


@pytest.mark.parametrize("text", ["nowhere.json", "nowhere/*.json", "x" * 5000, "a\0b", "~nobody-of-that-name/x", ""])
def test_nothing_there_is_an_error(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(text).reason


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    """Beyond `max_source_bytes`, also where no size is known beforehand."""
    small = Settings(max_source_bytes=100)
    path = written(tmp_path, {"waygraph": 1, "agents": [], "x": "y" * 100})
    assert "more than the 100 bytes that are read (WAYGRAPH_MAX_SOURCE_BYTES)" in refused(path, small).reason
    endless = tmp_path / "endless.json"
    endless.symlink_to("/dev/zero")
    assert "more than the 100 bytes" in refused(endless, small).reason
    with pytest.raises(SourceError, match="more than the 100 bytes"):
        read_stream(b"x" * 1000, small)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """What the system says is told; beside other files it costs only itself."""
    path = written(tmp_path, GOOD, "b.json")
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read anything but this
        path.unlink()
        path.symlink_to("/proc/self/mem")
    assert "cannot be read" in refused(path).reason
    written(tmp_path, GOOD, "a.json")
    manifest = read(tmp_path)
    assert keys(manifest) == ["good"]
    assert "cannot be read" in manifest.rejected[0].reason


def test_tools_of_another_shape_leave_what_is_held(tmp_path: Path) -> None:
    """The agent's record is rejected under its key, so that a sync takes no tool of it away."""
    manifest = read(written(tmp_path, {"waygraph": 1, "agents": [{"id": "a", "tools": {"x": 1}}]}))
    assert keys(manifest) == []
    assert [record.key for record in manifest.rejected] == ["a"]
    assert reasons(manifest) == {"/agents/0/tools": "expected a list of tools, found dict"}


def test_one_bad_file_of_a_folder_costs_itself(tmp_path: Path) -> None:
    """The folder is one source; its readable files are read, the others rejected with file and reason."""
    written(tmp_path, {"waygraph": 1, "agents": [{"id": "a"}]}, "a.json")
    broken = written(tmp_path, "{", "b.json")
    written(tmp_path, {"odd": 1}, "c.json")
    (tmp_path / "deeper").mkdir()
    written(tmp_path / "deeper", "waygraph: 1\nid: d\n", "d.YAML".lower())
    manifest = read(tmp_path)
    assert keys(manifest) == ["a", "d"]
    assert manifest.source == str(tmp_path)
    assert len(manifest.rejected) == 2
    assert manifest.rejected[0].where == f"{broken}#"
    assert "is not JSON" in manifest.rejected[0].reason
    assert manifest.partial
    broken.unlink()
    (tmp_path / "c.json").unlink()
    assert not read(tmp_path).partial


def test_a_glob_is_one_source(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.yaml"):
        written(tmp_path, {"waygraph": 1, "id": name[0]}, name)
    manifest = read(f"{tmp_path}/*.json")
    assert keys(manifest) == ["a", "b"]
    assert manifest.source == f"{tmp_path}/*.json"
    assert manifest.namespace == tmp_path.name


def test_standard_input_is_a_source() -> None:
    """What comes in is JSON of any kind; its name is `stdin` unless told."""
    [manifest] = read_stream(json.dumps(GOOD).encode(), S)
    assert (manifest.source, keys(manifest)) == ("stdin", ["good"])
    [manifest] = read_stream(json.dumps({"tools": []}).encode(), S, source="pipe")
    assert (manifest.source, keys(manifest)) == ("pipe", ["stdin"])
    for content in (b"", b"\xff", b"{"):
        with pytest.raises(SourceError, match="stdin"):
            read_stream(content, S)


def test_what_operators_set_comes_back_only_when_asked(tmp_path: Path) -> None:
    """Any file may call itself an export: its operators' words count with `kind="export"` alone."""
    said = {"agent_id": "a", "tags": [], "visible_to": [], "pinned": False, "hidden": False, "removed": True}
    path = written(tmp_path, {"waygraph_export": 1, "agents": [], "sources": [], "operator": [said]})
    assert read_path(str(path), Settings()) == []
    [manifest] = read_path(str(path), Settings(), kind="export")
    assert [word.agent_id for word in manifest.operator] == ["a"]
    broken = written(tmp_path, {"waygraph_export": 1, "sources": [], "operator": [{"agent_id": "a"}]})
    with pytest.raises(SourceError, match="not a whole export"):
        read_path(str(broken), Settings(), kind="export")


LAUGHS = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "\n".join(
    f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 10)
)
MERGES = "a0: &a0 {x: 1, y: 2}\n" + "\n".join(
    f"a{n}: &a{n}\n  <<: [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 10)
)
LONG_LAUGH = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]"


@pytest.mark.parametrize("bomb", [LAUGHS, MERGES, LONG_LAUGH], ids=["lists", "merge keys", "one long text"])
def test_a_billion_laughs_are_refused(tmp_path: Path, bomb: str) -> None:
    """A few lines of aliases that stand for 10^9 values: refused before anything is built of them."""
    started = time.process_time()
    error = refused(written(tmp_path, f"waygraph: 1\n{bomb}", "bomb.yaml"))
    assert f"aliases that unfold to more than {MAX_UNFOLDED_CHARS} characters" in error.reason
    assert time.process_time() - started < 2


LONG_KEYS = {
    "a dotted key": "a" + ".a" * 19_999 + " = 1\n",
    "a key behind other text": 'x = """\n"""\n' + "a" + ". 'a' " * 19_999 + " = 1\n",
    "a table": f"[a{'.a' * 19_999}]\n",
    "a key in a list": "x = [{a" + ".a" * 19_999 + " = 1}]\n",
    "keys in a table": f"[a{'.a' * 30}]\n" + "".join(f"b{each}.c = 1\n" for each in range(100_000)),
    "lists": "x = " + "[" * 20_000 + "]" * 20_000,
    "inline tables": "x = " + "{a = " * 20_000 + "1" + "}" * 20_000,
}


@pytest.mark.parametrize("text", LONG_KEYS.values(), ids=LONG_KEYS)
def test_toml_that_unfolds_is_refused_unparsed(tmp_path: Path, text: str) -> None:
    """39 kB of one dotted key took 2.4 GB. Every reader of TOML refuses it, and takes few bytes for one of the text."""
    file = written(tmp_path, text, "bomb.toml")
    readers: dict[str, Callable[[], object]] = {
        "a source": lambda: list(read_path(str(file), Settings(max_source_bytes=2_000_000))),
        "a host's file": lambda: read_config(HOSTS["codex"], file).servers,
        "services": lambda: load_services(str(file)),
        "a policy": lambda: load_policy(str(file)),
        "toolsets": lambda: _read(file),
    }
    tracemalloc.start()
    try:
        for name, reader in readers.items():
            with pytest.raises((SourceError, InvalidSetting), match=r"nested deeper than|has (a key of )?more than"):
                reader()
            assert tracemalloc.get_traced_memory()[1] < 40_000_000, name
    finally:
        tracemalloc.stop()


def test_texts_and_comments_of_toml_are_no_keys(tmp_path: Path) -> None:
    dots = "a." * 100
    document = toml_document(f'x = "{dots}" # {dots}\ny = \'{dots}\'\nz = """\n{dots}\n\\"""{dots}"""\n')
    assert set(document) == {"x", "y", "z"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [", "is not YAML"),
        ("a: *nobody", "is not YAML"),
        ("--- 1\n--- 2", "is not YAML"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        ("a: &a [*a]", "has an alias *a inside its own anchor"),
        ("{? [a, b] : c}", "is not YAML"),
        ("a: !!bool on", "!!bool is true or false"),
        ("a: !!set {b}", "is not YAML"),
        ("a: " + "9" * 5000, "Exceeds the limit"),
        ("[" * 100_000, "nested deeper than 200 levels"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested deeper than 200 levels"),
        ("\n".join(" " * n + "a:" for n in range(500)), "nested deeper than 200 levels"),
        ("\x00", "is not YAML"),
        ("", "is empty"),
    ],
)
def test_bad_yaml_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """Broken, hostile, endless or impossible YAML ends in a SourceError, never in a crash of the process."""
    assert reason in refused(written(tmp_path, text, "a.yaml")).reason


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        ("id: 7", "/agents/0/id"),
        ("id: true", "/agents/0/id"),
        ("{id: a, version: 1.0}", "/agents/0/version"),
        ("{id: a, description: 0x1F}", "/agents/0/description"),
        ("{id: a, tags: [1, 2]}", "/agents/0/tags/0"),
        ("{id: a, name: 5}", "/agents/0/name"),
        ("{1: a, id: b}", "/agents/0/1"),
    ],
)
def test_what_yaml_makes_of_a_text_is_told(tmp_path: Path, line: str, pointer: str) -> None:
    """Numbers and booleans where a text is expected: rejected with the place, so that quotes can be added."""
    manifest = read(written(tmp_path, f"waygraph: 1\nagents:\n  - {line}\n  - {{id: good}}", "a.yaml"))
    assert keys(manifest) == ["good"]
    assert [where.startswith(pointer) for where in reasons(manifest)] == [True]


@pytest.mark.parametrize(
    "written_as",
    [
        *"NO no No Yes y N On OFF off tRue nULL TrUe".split(),
        *"7:45 23:59:59 1_000 0007 -012 00.5 0b101 0o8 0xZ 1,5 2026-02-30 2026-02-03T04:05:06Z".split(),
        *"= << 1.2.3 1e .e5 .infinity +.nan --1 ~x".split(),
    ],
)
def test_what_no_number_of_yaml_1_2_is_stays_a_text(written_as: str) -> None:
    """In a list, as a value and as a key."""
    assert parse(f"- {written_as}\n- {written_as}") == [written_as, written_as]
    assert parse(f"{written_as}: {written_as}") == {written_as: written_as}


@pytest.mark.parametrize(
    ("written_as", "value"),
    [
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, None) for word in ("null", "Null", "NULL", "~", "")],
        *[("0", 0), ("-7", -7), ("+12", 12), ("0o17", 15), ("0x1F", 31)],
        *[("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("-2.5E-1", -0.25), (".inf", math.inf), ("-.INF", -math.inf)],
        *[("!!str 12", "12"), ("!!int 012", 12), ("!!float 3", 3.0), ("!!timestamp 2026-01-02", "2026-01-02")],
    ],
)
def test_what_yaml_1_2_takes_for_another_value_is_one(written_as: str, value: object) -> None:
    [found] = cast("list[object]", parse(f"- {written_as}"))
    assert found == value
    assert type(found) is type(value)


def test_keys_of_yaml_are_texts_as_they_are_written() -> None:
    text = "{200: a, on: b, true: c, null: d, 1.10: e, 0x1F: f, ~: g, 2026-01-02: h}"
    assert parse(text) == dict(zip("200 on true null 1.10 0x1F ~ 2026-01-02".split(), "abcdefgh", strict=True))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: &a {x: 1, y: 2}, b: {<<: *a, y: 3}}", {"x": 1, "y": 3}),
        ("{a: &a {x: 1}, c: &c {x: 2, y: 2}, b: {y: 3, <<: [*a, *c]}}", {"x": 1, "y": 3}),
        ("{b: {<<: left, '<<': right}}", {"<<": "right"}),
        ("{b: {<<: [left]}}", {"<<": ["left"]}),
    ],
)
def test_a_merge_key_takes_in_objects_and_is_else_a_key(text: str, value: object) -> None:
    assert cast("dict[str, object]", parse(text))["b"] == value


letters = st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp"))
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(letters, max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(letters, max_size=5), inner, max_size=4),
    max_leaves=20,
)


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 takes for a number, too: PyYAML writes for readers of 1.1."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[.0-9]+([eE][-+]?\d+)?$|0o[0-7]+$"), list("-+.0123456789")
)


@given(plain)
def test_plain_values_come_back_from_yaml(value: object) -> None:
    """What a YAML writer writes, with the aliases it likes to make, is read as it was."""
    assert parse(yaml.dump([value, value], Dumper=_Dumper, allow_unicode=True)) == [value, value]


shaped = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(1),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["waygraph", "agents", "id", "name", "tools", "server", "result", "inputSchema", "tags", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(shaped, st.sampled_from(["", *(kind.name for kind in BUILT_IN_KINDS)]))
def test_any_json_is_read_or_refused(document: object, kind: str) -> None:
    """Whatever the shape: a manifest, or a SourceError. Nothing else comes out."""
    try:
        [manifest] = read_stream(json.dumps(document).encode(), S, kind=kind)
    except SourceError:
        return
    assert all(rejected.reason and rejected.where for rejected in manifest.rejected)
