"""Ingests that a service does after it has answered: where each stands, for whoever sent it."""

import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from threading import Lock
from typing import Any

from waygraph.api.rest.problems import encode_json, own_fault, problem_of
from waygraph.registry.access.visibility import Caller
from waygraph.registry.http.problems import problem
from waygraph.registry.model import clock
from waygraph.registry.model.errors import ServiceStopping, UnknownName, WaygraphError
from waygraph.registry.model.shapes import Shape

_ID = re.compile(r"[\w-]{22}", re.ASCII)
type Submit = Callable[[Callable[[], None]], Future[None]]
"""Has it done by a thread, as `WriteLane.submit`."""
MOST_ENDED = 64
MOST_ENDED_BYTES = 32 * 1024 * 1024
"""Of what ended so much is kept by a process, the latest; the last one in any case."""

logger = logging.getLogger("waygraph.rest")


class Ingests:
    """Threads may share it. `folder`: where the workers of one service tell each other; None: it is the only one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._lock = folder, Lock()
        self._records = dict[str, bytes]()
        self._ended = list[str]()

    def add(
        self, caller: Caller, source: str, submit: Submit, work: Callable[[], Shape], on_drop: Callable[[], None]
    ) -> Shape:
        """Submits `work`, whose answer has `reports` and `problem`, and returns the new ingest.

        `on_drop` is called if the service stops before it begins. Raises what `submit` raises.
        """
        ingest = _Ingest(self, caller, source)

        def note_dropped(future: "Future[None]") -> None:
            if future.cancelled():
                ingest.end(error=ServiceStopping())
                on_drop()

        ingest.put()
        try:
            future = submit(lambda: ingest.run(work))
        except WaygraphError:
            with self._lock:
                self._forget(ingest.id)
            raise
        context = copy_context()  # the id of the request is in the problem
        future.add_done_callback(lambda future: context.run(note_dropped, future))
        return ingest.first

    def find(self, ingest_id: str, caller: Caller) -> Shape:
        """Of the caller's own, or of anybody's for an admin who sees everything. Raises UnknownName."""
        record = self._read(ingest_id)
        is_admin = "admin" in caller.scopes and caller.sees_everything
        if record is None or not (is_admin or record["caller"] == caller.id):
            raise UnknownName("ingest", ingest_id, ())
        ingest: dict[str, Any] = record["ingest"]
        if not ingest["end_time"] and not _is_alive(record["pid"]):
            reason = "the process that had it ended; whether it was done is not known"
            return {**ingest, "state": "failed", "problem": problem(503, "worker-ended", reason, "", retryable=True)}
        return ingest

    def put(self, ingest_id: str, record: Mapping[str, Any], *, has_ended: bool) -> None:
        content = encode_json(record)
        with self._lock:
            self._records[ingest_id] = content
            if has_ended:
                self._ended.append(ingest_id)
            self._tell(ingest_id, content)
            while len(self._ended) > 1 and self._keeps_too_much():
                self._forget(self._ended.pop(0))

    def _keeps_too_much(self) -> bool:
        return len(self._ended) > MOST_ENDED or sum(len(self._records[each]) for each in self._ended) > MOST_ENDED_BYTES

    def _forget(self, ingest_id: str) -> None:
        del self._records[ingest_id]
        if self._folder:
            self._path(self._folder, ingest_id).unlink(missing_ok=True)

    def _tell(self, ingest_id: str, content: bytes) -> None:
        """To the other workers. Where that fails, they do not know of it, or only what was before."""
        if self._folder is None:
            return
        path = self._path(self._folder, ingest_id)
        new = path.with_suffix(".new")
        try:
            new.write_bytes(content)
            new.replace(path)
        except OSError as error:
            logger.warning("other workers cannot learn of the ingest %s: %s", ingest_id, error.strerror)

    def _read(self, ingest_id: str) -> dict[str, Any] | None:
        content = self._records.get(ingest_id)
        if content is None and self._folder and _ID.fullmatch(ingest_id):
            with suppress(FileNotFoundError):  # nobody's, or forgotten
                content = self._path(self._folder, ingest_id).read_bytes()
        record: dict[str, Any] | None = json.loads(content) if content else None
        return record

    @staticmethod
    def _path(folder: Path, ingest_id: str) -> Path:
        return folder / f"ingest-{ingest_id}.json"


class _Ingest:
    """One ingest, as its thread changes it."""

    def __init__(self, ingests: Ingests, caller: Caller, source: str) -> None:
        self.id = secrets.token_urlsafe(16)
        self._ingests, self._caller_id = ingests, caller.id
        self.first: Shape = {
            "id": self.id,
            "source": source,
            "state": "queued",
            "arrival_time": clock.now(),
            "start_time": "",
            "end_time": "",
            "reports": [],
            "problem": None,
        }
        self._now = self.first

    def put(self, **changes: object) -> None:
        self._now = {**self._now, **changes}
        record = {"caller": self._caller_id, "pid": os.getpid(), "ingest": self._now}
        self._ingests.put(self.id, record, has_ended=bool(self._now["end_time"]))

    def run(self, work: Callable[[], Shape]) -> None:
        self.put(state="running", start_time=clock.now())
        try:
            answer = work()
        except WaygraphError as error:
            self.end(error=error)
        except Exception:  # nobody waits for it: an error of ours is told here, as where a request meets one
            logger.exception("the ingest %s met a fault", self.id)
            self.end(error=None)
        else:
            state = "failed" if answer["problem"] else "done"
            self.put(state=state, end_time=clock.now(), **answer)

    def end(self, *, error: WaygraphError | None) -> None:
        """`error` None: a fault of our own."""
        self.put(state="failed", end_time=clock.now(), problem=problem_of(error) if error else own_fault())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # another user's process has its number by now
        return False
    return True
