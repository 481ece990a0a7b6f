"""OAuth tokens on disk, one file that its owner alone may read: never in the graph, never in a log."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

from waygraph.registry.errors import RegistryLocked, StorageFailed, UpstreamUnreachable
from waygraph.registry.machine.atomic import PRIVATE, write_atomically
from waygraph.registry.machine.file_lock import write_lock

VERSION = 1
_LOCK_TIMEOUT_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class TokenFile:
    """What is held for each server. Threads and processes may share the file.

    A server is known by origin and path: on one host may be many, and a token for one is none for the next.
    """

    path: Path
    address: str = field(repr=False)

    def held(self) -> dict[str, Any]:
        """For this server; empty if nothing is held. Raises StorageFailed for a file that is no such file."""
        held = self._read().get(_key(self.address), {})
        return dict(held) if isinstance(held, Mapping) else {}

    def keep(self, **parts: Any) -> None:
        """In place of what was held under these names. Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            servers = self._read()
            servers[_key(self.address)] = {**servers.get(_key(self.address), {}), **parts}
            self._write(servers)

    def forget(self) -> bool:
        """Whether anything was held for this server. Raises RegistryLocked, StorageFailed."""
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            servers = self._read()
            known = servers.pop(_key(self.address), None)
            if known is not None:
                self._write(servers)
        return known is not None

    @asynccontextmanager
    async def alone(self, timeout_s: float) -> AsyncGenerator[None]:
        """Among all tasks, threads and processes that change this server's login. The file stays free for all others.

        Raises UpstreamUnreachable after `timeout_s`, StorageFailed where no lock can be made.
        """
        address = sha256(_key(self.address).encode()).hexdigest()[:16]
        deadline = anyio.current_time() + timeout_s
        with ExitStack() as lock:
            while True:
                try:
                    lock.enter_context(write_lock(self.path.with_name(f"login-{address}"), 0.0))
                    break
                except RegistryLocked:
                    if anyio.current_time() >= deadline:
                        raise UpstreamUnreachable(
                            f"another connection renews its login, or asks for it; gave up after {timeout_s:g} s"
                        ) from None
                await anyio.sleep(_POLL_S)
            yield

    def _read(self) -> dict[str, Any]:
        try:
            document = json.loads(self.path.read_bytes())
            if document["version"] == VERSION:
                return dict(document["servers"])
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise StorageFailed(f"{self.path}: cannot be read: {exc.strerror}") from exc
        except (ValueError, KeyError, TypeError):
            pass
        raise StorageFailed(f"{self.path}: is no file of tokens; remove it to log in anew") from None

    def _write(self, servers: Mapping[str, Any]) -> None:
        content = json.dumps({"version": VERSION, "servers": servers}, indent=1).encode()
        try:
            write_atomically(self.path, content, mode=PRIVATE)
        except OSError as exc:
            raise StorageFailed(f"{self.path}: cannot be written: {exc.strerror}") from exc


def token_file(folder: Path, address: str) -> TokenFile:
    """The file in the data folder."""
    return TokenFile(folder / "tokens.json", address)


def _key(address: str) -> str:
    """Origin and path; no login, no query."""
    parts = urlsplit(address)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{(parts.hostname or '').lower()}{port}{parts.path}"
