"""How a package of ours gets to where this Waygraph runs: from the clone, repository or index that it came from."""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

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
    address, within = urlsplit(origin.get("url", "")), _FOLDERS[distribution]
    if repository := origin.get("vcs_info"):
        plain = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()
        place = f"{repository['vcs']}+{plain}@{repository['commit_id']}"
        return f"{place}#subdirectory={within}" if within else place
    folder = Path(unquote(address.path)) / within
    return str(folder) if address.scheme == "file" and (folder / "pyproject.toml").is_file() else ""
