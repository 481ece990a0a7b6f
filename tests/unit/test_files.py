"""Files that are whole or absent, one writer at a time; and what a person wrote as a path: a mistake is one line."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from waygraph.api.cli.app import main
from waygraph.ingest.execution.services import load_services
from waygraph.ingest.hosts.hosts import absolute
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.policy import load_policy
from waygraph.registry.embedding import open_embedder
from waygraph.registry.model.errors import InvalidSetting, StorageFailed
from waygraph.registry.model.files import as_written, write_named
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.storage.location import is_part_of


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_named_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "record.json"
    file.write_text("old", encoding="utf-8")
    file.chmod(mode)
    write_named(file, "new")
    assert (file.read_text("utf-8"), stat.S_IMODE(file.stat().st_mode)) == ("new", mode)


@pytest.mark.parametrize("target", ["", ".lock", ".index/current", ".index/x.json", ".link"])
def test_an_export_is_never_written_over_its_registry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    home = tmp_path / "r.grafeo"
    with Registry.open(home, embedder="none") as registry:
        sync(registry, Manifest(source="s"))
    (tmp_path / "r.grafeo.link").symlink_to(home)
    held = home.read_bytes()
    assert main(["--registry", str(home), "export", "-o", f"{home}{target}"]) == 1
    assert "is of the registry itself" in capsys.readouterr().err
    assert home.read_bytes() == held
    assert main(["--registry", str(home), "export", "-o", str(tmp_path / "r.grafeo.json")]) == 0


def test_a_registry_in_memory_is_its_own_process_s(tmp_path: Path) -> None:
    """A child that was forked off and closes what it inherited takes nothing from its parent."""
    program = (
        "import os, sys\n"
        "from waygraph.ingest.sync.apply import sync\n"
        "from waygraph.registry.registry import Registry\n"
        "from waygraph.ingest.manifest.records import Manifest\n"
        "registry = Registry.open(':memory:', embedder='none')\n"
        "sync(registry, Manifest(source='s'))\n"
        "if not (child := os.fork()):\n"
        "    registry.close()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print([source.name for source in registry.sources()])\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stdout == "['s']\n", done.stderr


NOBODYS = "~no-such-user/x"
TAKEN: dict[str, Callable[[str], object]] = {
    "registry": Registry.open,
    "export": lambda path: is_part_of(Path(path), "r.grafeo"),
    "host": lambda path: absolute(path, Path.cwd()),
    "model": lambda path: open_embedder(f"onnx:{path}", Settings(), {}),
    "policy": load_policy,
    "services": load_services,
    "cache": lambda path: Settings(cache_dir=path).cache_path,
    "data": lambda path: Settings(data_dir=path).data_path,
    "keys": lambda path: Settings(keys_file=path).keys_path,
    "audit": lambda path: Settings(audit_file=path).audit_path,
}


def test_a_home_is_put_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert [str(as_written(path)) for path in ("~/r.grafeo", "r~", Path("/x"))] == ["/home/ann/r.grafeo", "r~", "/x"]


@pytest.mark.parametrize("takes", TAKEN.values(), ids=TAKEN)
def test_the_home_of_nobody_is_told(takes: Callable[[str], object]) -> None:
    with pytest.raises(InvalidSetting, match=f"'{NOBODYS}': nobody here has such a home"):
        takes(NOBODYS)


def agents(location: str | Path) -> list[str]:
    with Registry.open(location, embedder="none") as registry:
        return [agent.id for agent in registry.agents()]


@pytest.mark.parametrize("location", ["a\0b", "~no-such-user-as-this/x", "/"])
def test_what_is_no_path_is_refused(location: str) -> None:
    with pytest.raises(InvalidSetting, match=r"cannot be the file of a registry|nobody here has such a home"):
        agents(location)


@pytest.mark.parametrize("name", ["a" * 300, "file/x.grafeo"])
def test_a_path_that_the_system_refuses_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageFailed, match="cannot be read"):
        agents(tmp_path / name)
    assert os.listdir(tmp_path) == ["file"]
