"""The manifest of a plug-in (Claude Code, Codex), with the configurations that its `mcpServers` names in their places.

So the manifest can travel as one text. Only files below the plug-in's own folder are read; what cannot be read stays
named, and is reported where the servers are.
"""

import json
import stat
from pathlib import Path
from typing import Any

from waygraph.ingest.sources.json_text import json_document

MANIFEST = "plugin.json"
MAX_NAMED_BYTES = 4 * 1024 * 1024
_MANIFEST_FOLDER = "-plugin"
_ROOT = "${CLAUDE_PLUGIN_ROOT}/"


def with_named_files(manifest: Path, content: bytes) -> bytes:
    """The manifest's content; as it is if it names no file."""
    document = _json(content)
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(servers, str):
        return json.dumps({**document, "mcpServers": _servers(manifest, servers)}).encode()
    if isinstance(document, dict) and isinstance(servers, list):
        return json.dumps({**document, "mcpServers": [_servers(manifest, each) for each in servers]}).encode()
    return content


def plugin_folder(manifest: Path) -> Path:
    """The plug-in's: the manifest lies in it, or in its `.claude-plugin`."""
    folder = manifest.parent
    return folder.parent if folder.name.startswith(".") and folder.name.endswith(_MANIFEST_FOLDER) else folder


def _servers(manifest: Path, name: object) -> object:
    """What a named file holds: the document, or its `mcpServers`. The name itself if it cannot be read."""
    if not isinstance(name, str):
        return name
    try:
        folder = plugin_folder(manifest).resolve()
        file = (folder / name.removeprefix(_ROOT)).resolve()
        if not file.is_relative_to(folder) or not stat.S_ISREG(file.stat().st_mode):
            return name
        with file.open("rb") as stream:
            document = _json(stream.read(MAX_NAMED_BYTES))
    except (OSError, ValueError, RuntimeError):
        return name
    return document.get("mcpServers", document) if isinstance(document, dict) else name


def _json(content: bytes) -> Any:
    """None for what is no JSON: whoever reads the manifest itself says so."""
    try:
        return json_document(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
