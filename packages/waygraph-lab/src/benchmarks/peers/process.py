"""The benchmark's end of a peer's process."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from benchmarks.processes import plain_environ
from benchmarks.record import PROJECT

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""A product over some thousand rows is too small for a pool of threads, which waits for its last on a busy machine."""


class PeerFailed(Exception):
    """A peer's process ended, or said that it cannot. `reason` is one line."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason


class PeerProcess:
    """A running peer with the catalogue in it; `told` is what it said of taking it in.

    Raises PeerFailed, from every call.
    """

    def __init__(self, name: str, catalogue: Path, cache: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        self._stderr: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed with the process
        handed = plain_environ(environ) | ONE_THREAD
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.peer_process", name, str(catalogue), str(cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            cwd=PROJECT,
            env=handed,
        )
        try:
            self.told = self._heard()
        except PeerFailed:
            self.close()
            raise

    def ask(self, texts: Sequence[str], limit: int) -> dict[str, Any]:
        """`agents` and `ms`, one for each text, and `memory`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"texts": list(texts), "limit": limit}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerFailed(self.name, self._last_words()) from error
        return self._heard()

    def close(self) -> None:
        """Ends the process, and waits until it is gone."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(BrokenPipeError):  # what it was not told any more
                    pipe.close()
        self._process.terminate()
        self._process.wait()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed(self.name, self._last_words())
        said: dict[str, Any] = json.loads(line)
        if "failed" in said:
            raise PeerFailed(self.name, said["failed"])
        return said

    def _last_words(self) -> str:
        status = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().strip().splitlines()
        return f"ended with {status} and said: {lines[-1] if lines else 'nothing'}"
