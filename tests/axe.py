"""axe-core, which looks for what keeps people out of a page: npm's package, kept in the user's cache folder.

It is no part of the product: it is fetched by npm once, and without npm or the net its tests skip with one line, or
fail where WAYGRAPH_REQUIRE_BROWSER is set.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from playwright.sync_api import Page

VERSION = "4.14.1"
PACKAGE = f"axe-core@{VERSION}"
FETCH_S = 120


def axe_source() -> str:
    """The script. Skips, or fails where it is required."""
    path = platformdirs.user_cache_path("waygraph-tests") / f"axe-core-{VERSION}.min.js"
    if not path.exists():
        fetch_into(path)
    return path.read_text("utf-8")


def fetch_into(path: Path) -> None:
    reason = "npm is not there" if shutil.which("npm") is None else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        command = ["npm", "pack", "--silent", PACKAGE, "--pack-destination", folder]
        if not reason:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_S, cwd=folder)
            reason = "" if done.returncode == 0 else f"npm cannot fetch it: {done.stderr.strip()[-200:]}"
        if reason:
            (pytest.fail if os.environ.get("WAYGRAPH_REQUIRE_BROWSER") else pytest.skip)(f"no {PACKAGE}: {reason}")
        [archive] = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as files:
            content = files.extractfile("package/axe.min.js")
            assert content
            whole = Path(folder) / "axe.js"
            whole.write_bytes(content.read())
            whole.replace(path)


def find_barriers(page: Page) -> list[str]:
    """What axe-core finds on the page as it is shown now: a line for each element."""
    page.evaluate(axe_source())
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:200]} ({' '.join(str(node['failureSummary']).split())[:300]})"
        for each in found["violations"]
        for node in each["nodes"]
    ]
