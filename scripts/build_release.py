"""Build what a person publishes, into dist/: `python -m scripts.build_release [--out DIR]`. Nothing is uploaded.

The wheel and the source distribution, the model's and the lab's wheel, an SBOM with licences, a bundle for Claude
Desktop (`.mcpb`, a zip archive), a plug-in folder for Claude Code, and server.json for the official MCP registry.
tests/release checks each with the tools of those who read it.
"""

import argparse
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from scripts.build_model_package import PACKAGE as MODEL
from scripts.build_model_package import build as build_model

ROOT = Path(__file__).resolve().parents[1]
DIST, DEPLOY = ROOT / "dist", ROOT / "deploy"
DESKTOP, CODE, SERVER, ICON = (DEPLOY / name for name in ("claude-desktop", "claude-code", "server.json", "icon.png"))
EPOCH = (2025, 1, 1, 0, 0, 0)
"""The date of every file in the bundle: the same tree makes the same bytes."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.build_release", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=DIST, help="an empty folder where all goes (default: dist, which is emptied)"
    )
    parser.add_argument("--no-sbom", action="store_true", help="without the SBOM, which installs what the image has")
    options = parser.parse_args(arguments)
    out: Path = options.out.resolve()
    if out == DIST:
        shutil.rmtree(out, ignore_errors=True)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        parser.error(f"--out {out} is there already and not empty: name an empty folder, or one that is not there")
    out.mkdir(parents=True, exist_ok=True)
    build_packages(out)
    tell(build_model(MODEL, out))
    tell(build_bundle(out / "waygraph.mcpb"))
    tell(copy_plugin(out / "claude-code"))
    tell(Path(shutil.copy(SERVER, out)))
    if not options.no_sbom:
        subprocess.run([ROOT / "scripts" / "sbom", out], check=True)


def build_packages(out: Path) -> None:
    """The product's source distribution and from it the wheel, then the lab's wheel."""
    for what in ([ROOT], ["--wheel", ROOT / "packages" / "waygraph-lab"]):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{done.stdout}\n{done.stderr}")
    for path in sorted(out.iterdir()):
        tell(path)


def build_bundle(target: Path) -> Path:
    files = [*sorted(path for path in DESKTOP.rglob("*") if path.is_file() and "__pycache__" not in path.parts), ICON]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            name = path.name if path == ICON else path.relative_to(DESKTOP).as_posix()
            archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def copy_plugin(target: Path) -> Path:
    shutil.copytree(CODE, target)
    shutil.copy(ICON, target / ".claude-plugin" / "icon.png")
    return target


def tell(made: Path) -> None:
    size = sum(path.stat().st_size for path in (made.rglob("*") if made.is_dir() else (made,)) if path.is_file())
    print(f"{size / 1e6:8.2f} MB  {made.name}{'/' if made.is_dir() else ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
