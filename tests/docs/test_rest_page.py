"""docs/rest.md is true: each of its lines is run against a service, and answers as it says."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS

SHELL = shutil.which("sh") or "sh"
WAYGRAPH = Path(sys.executable).with_name("waygraph")
PAIR = re.compile(r"```sh\n(?P<lines>.*?)```\n\n```json\n(?P<answer>.*?)```", re.DOTALL)
PAGE = (DOCS / "rest.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there to run the page's lines")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[str]:
    """The address of a service over the example catalogue, as the page starts it."""
    folder = tmp_path_factory.mktemp("rest")
    command = [str(WAYGRAPH), "--registry", str(folder / "r.grafeo")]
    subprocess.run([*command, "ingest", "examples/catalog"], cwd=root, check=True, capture_output=True)
    # The page makes a key: other services would ask for it.
    environ = {**os.environ, "WAYGRAPH_DATA_DIR": str(folder / "data")}
    with (folder / "log").open("w") as log:
        running = subprocess.Popen([*command, "serve", "--port", "0"], cwd=root, stderr=log, env=environ)
    try:
        yield address_in(folder / "log")
    finally:
        running.terminate()
        assert running.wait(30) == 0


def address_in(log: Path) -> str:
    """What the service prints when it listens."""
    for _ in range(600):
        if found := re.search(r"http://\S+", log.read_text()):
            return found.group()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def test_the_page_is_true(service: str) -> None:
    """Its lines run in their order, and each answer has at least what the page shows of it."""
    shown = [(match["lines"], json.loads(match["answer"])) for match in PAIR.finditer(PAGE)]
    assert len(shown) == PAGE.count("```sh\n") > 8
    for lines, answer in shown:
        done = subprocess.run(
            [SHELL, "-ec", lines], env={**os.environ, "URL": service}, capture_output=True, text=True, check=True
        )
        assert lacking(json.loads(done.stdout), answer) == "", lines


def lacking(told: Any, shown: Any, at: str = "") -> str:
    """The first place where an answer has not what is shown of it; empty if there is none."""
    if isinstance(shown, dict):
        parts = [(told.get(key, "(nothing)"), value, f"{at}.{key}") for key, value in shown.items()]
    elif isinstance(shown, list):
        if len(told) < len(shown):
            return f"{at}: {told}"
        parts = [(one, other, f"{at}[{place}]") for place, (one, other) in enumerate(zip(told, shown, strict=False))]
    else:
        return "" if told == shown else f"{at}: {told!r}, not {shown!r}"
    return next(filter(None, (lacking(*part) for part in parts)), "")


def test_what_is_lacking_is_seen() -> None:
    assert lacking({"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 2}]}) == ""
    assert lacking({"a": [1]}, {"a": [1, 2]}) != ""
    assert lacking({"a": {"b": 1}}, {"a": {"b": 2}}) == ".a.b: 1, not 2"
    assert lacking({}, {"a": None}) != ""
