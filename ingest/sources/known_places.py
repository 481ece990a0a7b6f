"""Where clients keep their configs, per system. A new client is a line in `_PLACES`.

Only looked at: nothing of what they name is started, and no reference in them is resolved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from waygraph.ingest.manifest import Intake
from waygraph.ingest.sources import mcp_config
from waygraph.ingest.sources.parsing import parse_file
from waygraph.registry.errors import SourceError
from waygraph.registry.settings import Settings

CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VS_CODE = "Claude Desktop", "Claude Code", "Cursor", "VS Code"

# The names in braces are those of `folders`.
_PLACES = (
    (CLAUDE_DESKTOP, "{programs}/Claude/claude_desktop_config.json"),
    (CLAUDE_CODE, "{claude}/.claude.json"),
    (CLAUDE_CODE, "{cwd}/.mcp.json"),
    (CURSOR, "{home}/.cursor/mcp.json"),
    (CURSOR, "{cwd}/.cursor/mcp.json"),
    (VS_CODE, "{programs}/Code/User/mcp.json"),
    (VS_CODE, "{programs}/Code/User/settings.json"),
    (VS_CODE, "{programs}/Code - Insiders/User/mcp.json"),
    (VS_CODE, "{programs}/Code - Insiders/User/settings.json"),
    (VS_CODE, "{cwd}/.vscode/mcp.json"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConfig:
    """A config that is there. `servers`: how many it names, the disabled ones too. `fault`: why it cannot be read."""

    client: str
    path: Path
    servers: int = 0
    fault: str = ""


def known_configs(
    home: Path, environ: Mapping[str, str], platform: str, cwd: Path, *, settings: Settings
) -> list[KnownConfig]:
    """Those that are there and may name servers, by client. `platform` as in `sys.platform`; both folders absolute."""
    found = (_looked_at(client, path, settings) for client, path in _paths(home, environ, platform, cwd))
    return [config for config in found if config is not None]


def _paths(home: Path, environ: Mapping[str, str], platform: str, cwd: Path) -> Iterator[tuple[str, Path]]:
    """Each once: the project may be the home itself."""
    found = folders(home, environ, platform, cwd)
    seen = set[Path]()
    for client, place in _PLACES:
        path = Path(place.format_map(found))
        if path not in seen:
            seen.add(path)
            yield client, path


def folders(home: Path, environ: Mapping[str, str], platform: str, cwd: Path) -> dict[str, Path]:
    """What places are made of. `programs`: where the system keeps programs' data; `cwd`: the project; `claude`, `codex`
    and `zed`: the programs' own.
    """
    programs = _programs(home, environ, platform)
    return {
        "programs": programs,
        "home": home,
        "cwd": cwd,
        "claude": Path(environ.get("CLAUDE_CONFIG_DIR") or home),
        "codex": Path(environ.get("CODEX_HOME") or home / ".codex"),
        "zed": _zed(home, programs, platform),
    }


def _zed(home: Path, programs: Path, platform: str) -> Path:
    """On macOS it keeps to `~/.config`, as on Linux."""
    return home / ".config" / "zed" if platform == "darwin" else programs / ("Zed" if platform == "win32" else "zed")


def _programs(home: Path, environ: Mapping[str, str], platform: str) -> Path:
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    if platform == "darwin":
        return home / "Library" / "Application Support"
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _looked_at(client: str, path: Path, settings: Settings) -> KnownConfig | None:
    """None if it is not there, or is a file of settings that says nothing of servers."""
    try:
        if not path.is_file():
            return None
        document = parse_file(path, settings)
    except OSError as exc:
        return KnownConfig(client=client, path=path, fault=f"cannot be read: {exc.strerror}")
    except SourceError as error:
        return KnownConfig(client=client, path=path, fault=error.reason)
    if not mcp_config.fits(document):
        return None if path.name == "settings.json" else KnownConfig(client=client, path=path)
    intake = Intake(where=str(path), settings=settings)
    named = sum(1 for _ in mcp_config.read(document, str(path), intake))
    return KnownConfig(client=client, path=path, servers=named + len(intake.rejected))
