"""What of a folder is read, what is left out, and that no message denies what is there."""

import json
import os
from pathlib import Path

import pytest

from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import documents, list_path, read_path
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

S = Settings()
SERVERS = {"mcpServers": {"tides": {"command": "x"}}}


def skill(folder: Path, name: str = "knots", text: str = "Ties knots.") -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"---\nname: {name}\ndescription: {text}\n---\n")
    return file


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def read(path: Path) -> Manifest:
    [manifest] = read_path(str(path), S)
    return manifest


def keys(manifest: Manifest) -> list[str]:
    return sorted(entry.key for entry in manifest.entries)


@pytest.mark.parametrize(
    "place", [".claude/skills", ".agents/skills", "skills/.curated", ".github/skills", "a/.b/c/.d"]
)
def test_skills_in_dot_folders_are_found_from_above(tmp_path: Path, place: str) -> None:
    skill(tmp_path / place)
    skill(tmp_path / "skills", "splices")
    manifest = read(tmp_path)
    assert keys(manifest) == ["knots", "splices"]
    assert (manifest.rejected, manifest.cut) == ((), ())


CONFIGURATIONS: dict[str, object] = {
    ".vscode/mcp.json": {"servers": {"tides": {"command": "x"}}},
    ".vscode/settings.json": {"mcp": {"servers": {"tides": {"command": "x"}}}},
    ".cursor/mcp.json": SERVERS,
    ".mcp.json": SERVERS,
    ".kiro/settings/mcp.json": SERVERS,
    ".gemini/settings.json": SERVERS,
    ".roo/mcp.json": SERVERS,
    "codex/config.toml": '[mcp_servers.tides]\ncommand = "x"\n',
    ".codex/config.toml": '[mcp_servers.tides]\ncommand = "x"\n',
    ".zed/settings.json": {"context_servers": {"tides": {"command": "x"}}},
    ".opencode/opencode.jsonc": '{"mcp": {"tides": {"type": "local", "command": ["x"]},},}',
    ".continue/mcpServers/tides.yaml": "mcpServers: [{name: tides, command: x}]",
    ".claude-plugin/plugin.json": {"name": "p", "mcpServers": {"tides": {"command": "x"}}},
}


@pytest.mark.parametrize("place", CONFIGURATIONS)
def test_a_projects_configurations_are_found_from_above(tmp_path: Path, place: str) -> None:
    written(tmp_path, f"deep/{place}", CONFIGURATIONS[place])
    assert keys(read(tmp_path)) == ["tides"]


def test_a_hosts_settings_without_servers_are_no_fault(tmp_path: Path) -> None:
    """They are there for other things; with nothing beside them the reason is told."""
    written(tmp_path, ".vscode/settings.json", {"editor.tabSize": 2})
    with pytest.raises(SourceError, match="no kind of source is known"):
        read(tmp_path)
    skill(tmp_path)
    written(tmp_path, ".codex/config.toml", 'model = "m"')
    written(tmp_path, "site/config.toml", 'title = "t"')
    manifest = read(tmp_path)
    assert (keys(manifest), manifest.rejected, manifest.partial) == (["knots"], (), False)


@pytest.mark.parametrize(
    "where",
    [".git", ".hg", ".venv/lib", "node_modules/pkg", ".tox", "__pycache__", ".pytest_cache", ".claude/plugins/cache"],
)
def test_what_programs_keep_for_themselves_is_not_searched(tmp_path: Path, where: str) -> None:
    skill(tmp_path / where)
    written(tmp_path, f"{where}/mcp.json", SERVERS)
    with pytest.raises(SourceError) as caught:
        read(tmp_path)
    assert caught.value.reason.partition("not searched: ")[2] in (where, where.partition("/")[0])
    skill(tmp_path, "splices")
    assert keys(read(tmp_path)) == ["splices"]


@pytest.mark.parametrize(("mark", "folder"), [("pyvenv.cfg", "env"), ("CACHEDIR.TAG", "built")])
def test_an_environment_or_cache_is_known_by_its_mark(tmp_path: Path, mark: str, folder: str) -> None:
    skill(tmp_path / folder)
    assert keys(read(tmp_path)) == ["knots"]
    written(tmp_path, f"{folder}/{mark}", "")
    with pytest.raises(SourceError, match=f"not searched: {folder}"):
        read(tmp_path)


def test_files_of_others_in_dot_folders_are_left_out_and_told(tmp_path: Path) -> None:
    """They may hold keys. Nothing of them is read, nor sent to a service; one that is named is read."""
    catalogue = {"waygraph": 1, "agents": [{"id": "harbour"}]}
    file = written(tmp_path, ".specs/harbour.json", catalogue)
    written(tmp_path, ".config/credentials.json", {"token": "hunter2"})
    with pytest.raises(SourceError) as caught:
        read(tmp_path)
    assert all(name in caught.value.reason for name in (".specs/harbour.json", ".config/credentials.json"))
    skill(tmp_path)
    manifest = read(tmp_path)
    [remark] = manifest.cut
    assert ".specs/harbour.json" in remark.reason
    assert keys(manifest) == ["knots"]
    assert "hunter2" not in repr(list(documents(list_path(str(tmp_path)), S)))
    assert keys(read(file)) == keys(read(file.parent)) == ["harbour"]


def test_what_is_no_regular_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    skill(tmp_path)
    [remark] = read(tmp_path).cut
    assert "gone.yaml (no regular file), pipe.json (no regular file)" in remark.reason


def test_links_to_folders_are_followed_nowhere(tmp_path: Path) -> None:
    """What lies inside is found where it lies; of what lies outside a message speaks if nothing else is there."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    skill(outside, "stolen")
    inside.mkdir()
    (inside / "linked").symlink_to(outside, target_is_directory=True)
    with pytest.raises(SourceError, match=r"not searched: linked \(a link to what is not in the folder\)"):
        read(inside)
    skill(inside / ".agents" / "skills")
    (inside / ".claude").symlink_to(inside / ".agents", target_is_directory=True)
    manifest = read(inside)
    assert (keys(manifest), manifest.rejected, manifest.cut) == (["knots"], (), ())


def test_copies_of_one_skill_are_one(tmp_path: Path) -> None:
    """As hosts' folders have them; two that differ are told apart."""
    for place in (".claude/skills", ".agents/skills", "skills"):
        skill(tmp_path / place)
    assert keys(read(tmp_path)) == ["knots"]
    skill(tmp_path / ".cursor/skills", text="Unties knots.")
    assert keys(read(tmp_path)) == ["knots", "knots"]


def test_a_pattern_that_matches_hidden_files_alone_says_so(tmp_path: Path) -> None:
    skill(tmp_path / ".claude" / "skills")
    skill(tmp_path / ".git" / "skills")
    with pytest.raises(SourceError) as caught:
        read(tmp_path / "**" / "SKILL.md")
    assert ".claude/skills/knots/SKILL.md" in caught.value.reason
    assert keys(read(tmp_path / ".claude" / "**" / "SKILL.md")) == ["knots"]
    with pytest.raises(SourceError, match=r"no file matches it as a pattern$"):
        read(tmp_path / "**" / "NONE.md")
