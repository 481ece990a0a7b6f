"""What was taken over from a host's file, kept in the data folder for its owner alone.

Two files for each host's file: the servers, as a config that is a source of the registry; and the record, with all
that is needed to put the host's file back. Both are derived from the record's takes, and each is written whole.
"""

import json
import os
import stat
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from waygraph.ingest.hosts.config import HostConfig, content_of, read_config
from waygraph.registry.model.errors import SourceError, StorageFailed
from waygraph.registry.model.files import content_if_there, is_taken, sync_path, write_private

# A host's file replaced: a backup beside it first, then the new one in its place, whole or not at all.


_MOST_BACKUPS = 1000
TURN_TIMEOUT_S, TAKEOVER_TIMEOUT_S = 30.0, 300.0
"""So long each waits for the others; a takeover asks servers, which takes its time."""
_POLL_S = 0.02


def rewrite_file(config: HostConfig, change: Callable[[HostConfig], HostConfig]) -> tuple[HostConfig, Path | None]:
    """Changes what the file has now; gives the file as it is then, and the backup, None if there was no file.

    Of several at once each waits for its turn. Raises as `replace_file`, and what `change` raises.
    """
    with turn(_folder_of(config)):
        now = read_config(config.host, config.path)
        after = change(now)
        return after, _replace(now, after) if after.text != now.text else None


def replace_file(before: HostConfig, after: HostConfig) -> Path | None:
    """Writes the file; gives its backup, None if there was no file. Links are followed; permissions stay as they were.

    Raises SourceError if the file is no longer what was read, StorageFailed if it cannot be written: then it is as it
    was.
    """
    with turn(_folder_of(before)):
        return _replace(before, after)


@contextmanager
def turn(folder: Path, *, timeout_s: float = TURN_TIMEOUT_S) -> Iterator[None]:
    """Only one program of ours is at work in the folder; no file is left in it. Raises StorageFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as exc:
        raise StorageFailed(f"{folder}: cannot be used: {exc.strerror}") from exc
    try:
        ends_at = time.monotonic() + timeout_s
        while not is_taken(descriptor):
            if time.monotonic() >= ends_at:
                raise StorageFailed(f"{folder}: another program has locked it; nothing was written: run it again")
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _folder_of(config: HostConfig) -> Path:
    """Where the file itself lies, which a link may name."""
    return Path(os.path.realpath(config.path)).parent


def _replace(before: HostConfig, after: HostConfig) -> Path | None:
    path = Path(os.path.realpath(before.path))
    try:
        backup = None if before.text is None else _back_up(path, before.text.encode())
        _put(path, before, (after.text or "").encode())
    except OSError as exc:
        raise StorageFailed(f"{before.path}: cannot be written: {exc.strerror}") from exc
    return backup


def _back_up(path: Path, content: bytes) -> Path:
    """Beside the file, for its owner alone; never in place of another."""
    for number in range(1, _MOST_BACKUPS):
        backup = path.with_name(f"{path.name}.before-waygraph{'' if number == 1 else f'-{number}'}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if backup.is_file() and content_of(backup) == content:
                return backup
            continue
        with open(descriptor, "wb") as file:
            _write_all(file.fileno(), content)
        return backup
    raise StorageFailed(f"{path}: has {_MOST_BACKUPS:,} backups beside it; remove some")


def _put(path: Path, before: HostConfig, content: bytes) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if before.text is not None else 0o600
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        fresh = Path(file.name)
        try:
            _write_all(file.fileno(), content)
            fresh.chmod(mode)
            _refuse_changed(before)
            fresh.replace(path)
        except BaseException:
            with suppress(OSError):
                fresh.unlink()
            raise
    sync_path(path.parent)


def _refuse_changed(before: HostConfig) -> None:
    """A host may write its file at any time."""
    if content_of(before.path) != (None if before.text is None else before.text.encode()):
        raise SourceError(str(before.path), "was changed by somebody else meanwhile; nothing was written: run it again")


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """One takeover. `before` and `after`: digests of the host's file without and with it; `original`: that file.

    A take whose `before` is what the file has now did not come about. `places`: of the servers that the file keeps for
    one folder, that folder and what it calls them.
    """

    names: tuple[str, ...]
    before: str
    after: str
    original: bytes = field(repr=False)
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def place_of(self, key: str) -> tuple[str, str]:
        """The folder, empty for all, and the name there."""
        return self.places.get(key, ("", key))


@dataclass(frozen=True, slots=True)
class Shelf:
    """Of one host's file. `config` holds the servers; its path is the source's name."""

    folder: Path
    name: str

    @property
    def config(self) -> Path:
        return self.folder / f"{self.name}.json"

    @property
    def record(self) -> Path:
        return self.folder / f"{self.name}.takes"

    def takes(self) -> list[Take]:
        """In the order in which they came. Raises StorageFailed."""
        if (content := content_if_there(self.record)) is None:
            return []
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            if (document := json.loads(content))["version"] == VERSION:
                return [_take(entry) for entry in document["takes"]]
        raise StorageFailed(f"{self.record}: is no record of a takeover; the servers are in {self.config}")

    def keep_takes(self, path: Path, takes: Sequence[Take]) -> None:
        """Raises StorageFailed."""
        entries = [
            {
                "names": list(take.names),
                "before": take.before,
                "after": take.after,
                "original": b64encode(take.original).decode(),
                "places": {key: list(place) for key, place in take.places.items()},
            }
            for take in takes
        ]
        self._write(self.record, {"version": VERSION, "file": str(path), "takes": entries})

    def servers(self) -> dict[str, Any]:
        """Those of the config; empty if there is none. Raises StorageFailed."""
        if (content := content_if_there(self.config)) is None:
            return {}
        with suppress(ValueError, KeyError, TypeError):
            return dict(json.loads(content)["mcpServers"])
        raise StorageFailed(f"{self.config}: is no config of servers that were taken over")

    def keep_servers(self, servers: Mapping[str, Any], inputs: object = None) -> None:
        """In the form that clients' configs have. Raises StorageFailed."""
        self._write(self.config, {"mcpServers": dict(servers), **({"inputs": inputs} if inputs else {})})

    def clear(self) -> None:
        """The servers first: without a record nothing says that they were taken over. Raises StorageFailed."""
        try:
            self.config.unlink(missing_ok=True)
            self.record.unlink(missing_ok=True)
        except OSError as exc:
            raise StorageFailed(f"{self.folder}: cannot be written: {exc.strerror}") from exc

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        with suppress(OSError):  # the writing says what is wrong with it
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, document, indent=2)


def shelf_of(data: Path, host_id: str, path: Path, usual: Path) -> Shelf:
    """In the data folder: by the host's name for its usual file, and by the path for any other."""
    suffix = "" if path == usual else f"-{sha256(str(path).encode()).hexdigest()[:12]}"
    return Shelf(data / "hosts", f"{host_id}{suffix}")


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _take(entry: Mapping[str, Any]) -> Take:
    return Take(
        names=tuple(map(str, entry["names"])),
        before=str(entry["before"]),
        after=str(entry["after"]),
        original=b64decode(entry["original"]),
        places={str(key): (str(folder), str(name)) for key, (folder, name) in entry.get("places", {}).items()},
    )
