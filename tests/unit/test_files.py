"""Files that are whole or absent, one writer at a time, and what is remembered of texts."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from waygraph.api.cli.app import main
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.files import write_named
from waygraph.registry.registry import Registry


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
