"""Build the wheel of waygraph-minilm: `python -m scripts.build_model_package [FOLDER] [--out DIR]`.

FOLDER is what `waygraph learn embedder` writes: a model in the form of sentence-transformers, with a card.json. It then
takes the place of the model in packages/waygraph-minilm. Of the same model the same bytes are built, with the same
versions of onnx and setuptools.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from waygraph.registry.embedding.bert_graph import write_bert_onnx
from waygraph.registry.embedding.weights import CHECKSUMS, GRAPH, NEEDED_FILES, PULLED_FILES, WEIGHTS, read_card
from waygraph.registry.model.errors import EmbedderRefused
from waygraph_lab.training.embedder_trials import CARD

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "packages" / "waygraph-minilm"
MODEL = PACKAGE / "waygraph_minilm" / "model"
EPOCH = "1735689600"
"""The date of every file in the wheel: 2025-01-01."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.build_model_package", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="a trained model, to take the place of this one")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the wheel goes (default: dist)")
    options = parser.parse_args(arguments)
    if options.folder:
        try:
            write_model(options.folder, MODEL)
        except EmbedderRefused as error:
            sys.exit(str(error))
    wheel = build(PACKAGE, options.out)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


def build(package: Path, out: Path) -> Path:
    """The wheel of a copy of the folder `package`."""
    with TemporaryDirectory() as scratch:
        source = shutil.copytree(package, Path(scratch) / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in source.rglob("*"):  # the wheel keeps modes, whatever the caller's umask
            path.chmod(0o755 if path.is_dir() else 0o644)
        made = Path(scratch) / "dist"
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--outdir",
            made,
            source,
        ]
        environ = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        subprocess.run(command, env=environ, umask=0o022, stdout=subprocess.DEVNULL, check=True)
        (wheel,) = made.iterdir()
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out))


def write_model(folder: Path, target: Path) -> None:
    """The graph in int8, the files that say how texts come to it, their checksums, and the card, in place of `target`.

    Raises EmbedderRefused for a folder that holds no model, or no card.
    """
    if missing := [name for name in (*NEEDED_FILES, CARD) if not (folder / name).is_file()]:
        raise EmbedderRefused(f"{folder} has no {', '.join(missing)}; `waygraph learn embedder` writes them all")
    shape = read_card(folder).shape
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    write_bert_onnx(folder / WEIGHTS, shape, "int8", target / GRAPH, words="int8")
    for path in (path for pattern in PULLED_FILES if pattern != WEIGHTS for path in folder.glob(pattern)):
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    sums = {file.relative_to(target).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (target / CHECKSUMS).write_text(json.dumps(sums, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(folder / CARD, target / CARD)


if __name__ == "__main__":
    main(sys.argv[1:])
