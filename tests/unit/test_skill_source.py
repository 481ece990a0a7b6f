"""Agent Skills: folders with a SKILL.md, what is read of them and their scripts, and what is left alone."""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.any_value import any_value
from tests.openapi_documents import told
from tests.unit.test_sources import read
from waygraph.ingest.manifest.records import AgentRecord, Intake
from waygraph.ingest.sources.formats import skill
from waygraph.ingest.sources.formats.skill import MAX_CHARS, describe_script
from waygraph.ingest.sources.read import documents, list_path, read_documents
from waygraph.registry.model.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "sources" / "tide-report"
S = Settings()
FRONT = "name: {name}\ndescription: Does {name} things"


def written(folder: Path, name: str = "knots", *, front: str = "", body: str = "", file: str = "SKILL.md") -> Path:
    """A skill's folder."""
    place = folder / name
    (place / "scripts").mkdir(parents=True, exist_ok=True)
    (place / file).write_text(f"---\n{front or FRONT.format(name=name)}\n---\n{body}")
    return place


def script(place: Path, name: str, text: str | bytes) -> Path:
    path = place / "scripts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_skill_is_an_agent_and_its_scripts_are_tools() -> None:
    """Front matter, the beginning of the text, and of each script what it says of itself."""
    [entry] = read(EXAMPLE).entries
    agent = entry.agent
    assert (entry.key, agent.name, agent.kind, agent.version) == ("tide-report", "tide-report", "skill", "1.0")
    described_first, opening = agent.description.split("\n\n")
    assert described_first.startswith("Makes a tide report of a place from its gauge readings.")
    assert opening.startswith("Reads a file of gauge readings, finds high and low water")
    transport = json.loads(agent.transport)
    files = transport.pop("files")
    assert files == {
        path.relative_to(EXAMPLE).as_posix(): {
            "sha256": sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
        }
        for path in EXAMPLE.rglob("*")
        if path.is_file()
    }
    assert transport.pop("frontmatter")["compatibility"] == "Needs Python 3.12"
    assert transport == {"folder": "tide-report", "names": ["Bash", "Read"]}
    assert {tool.name: tool.description for tool in entry.tools} == {
        "clearance.sh": "Says how much water a ship of the given draught has under her keel at each height read from"
        " standard input.",
        "extremes.py": "Finds the times and heights of high and low water in a file of gauge readings.",
    }
    assert json.loads(entry.tools[0].annotations)["script"]["path"] == "scripts/clearance.sh"


@pytest.mark.parametrize("named", ["tide-report", "tide-report/SKILL.md", "*/SKILL.md", "."])
def test_a_skill_is_read_by_its_folder_its_file_or_a_folder_of_skills(named: str) -> None:
    by_folder = read(EXAMPLE).entries[0]
    found = {entry.key: entry for entry in read(EXAMPLE.parent / named).entries}
    assert found["tide-report"] == by_folder


def test_a_skill_travels_as_one_document() -> None:
    """What a service makes of the documents is what is made of the files here."""
    listing = list_path(str(EXAMPLE))
    packed = list(documents(listing, S))
    assert len(packed) == 1
    [there] = read_documents(packed, S, source=listing.source)
    assert there.entries == read(EXAMPLE).entries


def test_a_changed_text_or_script_shows(tmp_path: Path) -> None:
    """Also far behind what is read of it: the digest is another, and with it the agent's or the tool's hash."""
    long = "word " * 10_000
    place = written(tmp_path, body=long)
    path = script(place, "run.py", f"# Runs\n{'x = 1\n' * 2000}")
    before = read(place).entries[0]
    (place / "SKILL.md").write_text(f"---\n{FRONT.format(name='knots')}\n---\n{long}and one thing more")
    path.write_text(path.read_text() + "y = 2\n")
    after = read(place).entries[0]
    assert after.agent.description == before.agent.description
    assert after.agent.content_hash != before.agent.content_hash
    assert after.tools[0].content_hash != before.tools[0].content_hash


@pytest.mark.parametrize(
    ("front", "key", "remarks"),
    [
        ("name: hitches\ndescription: d", "hitches", {"/name": "'hitches', its folder 'knots'"}),
        ("name: My Knots\ndescription: d", "My Knots", {"/name": "at most 64 of a-z"}),
        ("name: a--b\ndescription: d", "a--b", {"/name": "at most 64 of a-z"}),
        ("description: d", "knots", {"/name": "that of its folder is taken"}),
        ("name: 5\ndescription: d", "5", {"/name": "'5', its folder 'knots'"}),
        ("name: knots", "knots", {"/description": "no description"}),
        (f"name: knots\ndescription: {'x' * 1025}", "knots", {"/description": "longer than the 1024"}),
        (f"name: knots\ndescription: d\nmetadata: {{n: 0x{'f' * 5000}, version: 0x{'f' * 5000}}}", "knots", {}),
        ("name: knots\ndescription: d\ncolour: red\nmetadata: [1]\nlicense: {a: b}", "knots", {}),
    ],
)
def test_what_the_specification_does_not_allow_is_taken_with_a_remark(
    tmp_path: Path, front: str, key: str, remarks: dict[str, str]
) -> None:
    manifest = read(written(tmp_path, front=front, body="Ties knots."))
    assert [entry.key for entry in manifest.entries] == [key]
    assert not manifest.rejected
    said = told(manifest.cut)
    assert said.keys() == remarks.keys()
    assert all(reason in said[pointer] for pointer, reason in remarks.items())


@pytest.mark.parametrize(
    ("text", "reason", "has_name"),
    [
        ("# No front matter", "has no front matter", False),
        ("", "has no front matter", False),
        ("---\nname: open", "has no front matter", False),
        ("---\na b: [c\n---\n", "is not YAML", False),
        ("---\n- a\n---\n", "its front matter is a list", False),
        ("---\n- " + "[" * 300 + "\n---\n", "nested deeper than", False),
        (f"---\nname: {'x' * 129}\n---\n", "at most 128 characters", True),
        ('---\nname: "a\\u0007b"\n---\n', "control characters", True),
    ],
)
def test_a_bad_skill_costs_itself(tmp_path: Path, text: str, reason: str, *, has_name: bool) -> None:
    """The reason is told under the skill's key, so that what is held of it stays; the skill beside it is taken.

    Where its name cannot be read, it may be held under another than its folder's: nothing is taken for gone.
    """
    (written(tmp_path) / "SKILL.md").write_text(text)
    written(tmp_path, "splices")
    manifest = read(tmp_path)
    assert [entry.key for entry in manifest.entries] == ["splices"]
    [rejected] = manifest.rejected
    assert reason in rejected.reason
    assert "knots/SKILL.md" in rejected.where
    assert rejected.key
    assert manifest.partial is not has_name


def test_secrets_in_the_metadata_become_references(tmp_path: Path) -> None:
    front = 'name: knots\ndescription: d\nmetadata: {api_key: "hunter2", home: "https://a:hunter2@x.example"}'
    assert "hunter2" not in repr(read(written(tmp_path, front=front)).entries)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    """Files, folders, links to themselves, and a SKILL.md that is one; what leads inside is read."""
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "secret.py").write_text("# hunter2\n")
    (secret / "SKILL.md").write_text("---\nname: stolen\ndescription: hunter2\n---\n")
    skills = tmp_path / "skills"
    place = written(skills)
    inside = script(place, "inside.py", "# Inside\n")
    (place / "scripts" / "out.py").symlink_to(secret / "secret.py")
    (place / "scripts" / "folder").symlink_to(secret, target_is_directory=True)
    (place / "scripts" / "loop.py").symlink_to(place / "scripts" / "loop.py")
    (place / "scripts" / "again.py").symlink_to(inside)
    stolen = skills / "stolen"
    stolen.mkdir()
    (stolen / "SKILL.md").symlink_to(secret / "SKILL.md")
    manifest = read(skills)
    [entry] = manifest.entries
    assert [tool.name for tool in entry.tools] == ["again.py", "inside.py"]
    reasons = told(manifest.rejected)
    assert "is a link to what is not in the folder" in reasons["/scripts/out.py"]
    assert "is a link to what is not in the folder" in reasons[""]
    assert reasons.keys() == {"/scripts/out.py", "/scripts/loop.py", ""}
    assert "hunter2" not in repr(manifest)
    assert not manifest.partial


def test_a_script_is_never_run_and_need_not_be_text(tmp_path: Path) -> None:
    """Bytes, pipes and files without end: none of them hangs or raises."""
    place = written(tmp_path)
    script(place, "bytes.py", b"\x00\xff" * 5000)
    script(place, "touch.sh", f"#!/bin/sh\ntouch {tmp_path}/ran\n").chmod(0o755)
    os.mkfifo(place / "scripts" / "pipe.py")
    manifest = read(place)
    assert [tool.name for tool in manifest.entries[0].tools] == ["bytes.py", "touch.sh"]
    assert not (tmp_path / "ran").exists()


@given(st.text(st.sampled_from("\"'#/*-<>=;%![] \nabc`"), max_size=200))
def test_no_head_of_a_script_raises(head: str) -> None:
    assert len(describe_script(head * 20)) <= MAX_CHARS


JSON = any_value()
PACKED = st.fixed_dictionaries(
    {
        "folder": st.just("knots") | JSON,
        "skill": st.text(max_size=40) | st.text("name: descripton\n'\"[]{}&*!|>-", max_size=80) | JSON,
        "body": st.text(max_size=60) | JSON,
        "scripts": st.lists(
            st.fixed_dictionaries({}, optional={"path": JSON, "head": JSON, "sha256": JSON, "left_out": JSON}) | JSON,
            max_size=3,
        ),
    },
    optional={"files": JSON, "left_out": JSON, "flags": JSON, "partial": JSON},
)
FILE = st.fixed_dictionaries({"uri": st.just("skill://a/SKILL.md") | JSON, "digest": JSON, "size": JSON}) | JSON
LISTED = st.fixed_dictionaries(
    {
        "uri": st.just("skill://a/SKILL.md") | JSON,
        "frontmatter": st.fixed_dictionaries({"name": st.just("a") | JSON}, optional={"allowed-tools": JSON}) | JSON,
        "resources": st.lists(FILE, max_size=3) | JSON,
    }
)


@given(PACKED)
def test_no_packed_skill_raises(document: Any) -> None:
    """It may come from a caller of the service: it is taken or rejected, with a reason."""
    intake = Intake("SKILL.md")
    assert skill.fits(document)
    for record in skill.read(document, "SKILL.md", intake):
        intake.take(record)
    assert len(intake.entries) == 1 or intake.rejected


@given(LISTED | JSON)
def test_no_skill_of_a_server_raises(listing: Any) -> None:
    intake = Intake("server")
    for record in skill.read_listing(listing, AgentRecord(pointer="", key="server"), 0, intake):
        intake.take(record)
    assert len(intake.entries) == 1 or intake.rejected


@pytest.mark.parametrize("path", ["../a", "a/../b", "/a", "a//b", "./a", "a/", "a\\b", "a\nb", ""])
def test_no_path_leads_out_of_a_skill(path: str) -> None:
    """Whoever says so, also a catalogue; what is no digest is refused, too."""
    file = {"sha256": "0" * 64, "size": 1}
    for files in ({path: file}, {"a": {**file, "sha256": "0"}}, {"a": {**file, "size": -1}}, {"a": {"size": 1}}, ["a"]):
        intake = Intake("catalogue")
        intake.take(AgentRecord(pointer="", key="s", kind="skill", transport={"files": files}))
        assert intake.rejected, files
