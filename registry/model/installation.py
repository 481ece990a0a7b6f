"""How a package of ours gets to where this Waygraph runs: from the clone, repository or index that it came from."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

_FOLDERS = {"waygraph": "", "waygraph-lab": "packages/waygraph-lab", "waygraph-minilm": "packages/waygraph-minilm"}
"""Of a distribution, within the repository."""


def install_command(distribution: str, extra: str = "") -> str:
    """Return the shell command that installs a distribution, with an extra if one is named.

    One of ours comes from the folder or repository that Waygraph was installed from, if that is still there.
    """
    extras = f"[{extra}]" if extra else ""
    place = _place_of(distribution) if distribution in _FOLDERS else ""
    if "+" in place:
        return f"pip install '{distribution}{extras} @ {place}'"
    requirement = f"{place or distribution}{extras}"
    return f"pip install '{requirement}'" if extras or " " in requirement else f"pip install {requirement}"


def _place_of(distribution: str) -> str:
    """A folder or an address as a requirement has it; empty: an index. See the Direct URL Data Structure of PyPA."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import distribution as find

    try:
        origin = json.loads(find("waygraph").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    within = _FOLDERS[distribution]
    if "vcs_info" in origin:
        return address_of_origin({**origin, "subdirectory": within})
    address = urlsplit(origin.get("url", ""))
    folder = Path(unquote(address.path)) / within
    return str(folder) if address.scheme == "file" and (folder / "pyproject.toml").is_file() else ""


def address_of_origin(origin: Mapping[str, Any]) -> str:
    """As a requirement has it; empty: an index. `origin`: a `direct_url.json` (Direct URL Data Structure of PyPA).

    Without a user or password, which would stay in a host's file; ssh needs its user.
    """
    parts = urlsplit(origin.get("url", ""))
    if "ssh" not in parts.scheme:
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    address, repository, folder = urlunsplit(parts), origin.get("vcs_info"), origin.get("subdirectory")
    if repository:
        address = f"{repository['vcs']}+{address}@{repository['commit_id']}"
    return f"{address}#subdirectory={folder}" if folder else address
