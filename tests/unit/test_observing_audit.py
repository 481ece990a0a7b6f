"""The audit: who tried what, and how it ended. A line in the log, and one in a file that only its owner reads."""

import json
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from tests.observed_service import CALLER, KEY, samples
from waygraph.api.telemetry.audit import TARGET_CHARS, Audit
from waygraph.api.telemetry.logs import open_logs
from waygraph.api.telemetry.metrics import Metrics
from waygraph.registry.model.errors import CypherRefused, EngineError, InvalidSetting, NotAllowed, WaygraphError

STATEMENT = "MATCH (a:Agent) WHERE a.id = $id RETURN a"


@contextmanager
def logged() -> Iterator[StringIO]:
    """What the process logs meanwhile, as a service would."""
    stream, held = StringIO(), list(logging.getLogger().handlers)
    open_logs("json", "info", stream)
    try:
        yield stream
    finally:
        logging.getLogger().handlers = held


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_a_write_is_a_line_in_the_log_and_in_the_file(file: Path) -> None:
    """Who, what, when, how it ended, at which revision, in which request."""
    with logged() as stream, bound_contextvars(request_id="r-1"):
        audit = Audit(file)
        with audit.attempt(CALLER, "ingest", "catalogue.yaml") as attempt:
            attempt.revision = 7
        audit.close()
    (line,), (written,) = lines(stream.getvalue()), lines(file.read_text(encoding="utf-8"))
    assert (line["event"], line["logger"]) == ("audit", "waygraph.audit")
    for told in (line, written):
        assert (told["caller"], told["caller_name"]) == (CALLER.id, "ci")
        assert (told["action"], told["target"], told["outcome"]) == ("ingest", "catalogue.yaml", "ok")
        assert (told["revision"], told["request_id"]) == (7, "r-1")
        assert told["duration_ms"] >= 0
        assert told["time"].startswith("20")
        assert "error" not in told


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CypherRefused("CREATE is no reading"), "refused"),
        (NotAllowed("this needs the scope 'cypher'"), "refused"),
        (EngineError("out of memory"), "failed"),
        (ValueError("a bug"), "failed"),
    ],
)
def test_what_fails_is_told_with_its_code(file: Path, error: Exception, outcome: str) -> None:
    """The error's type and not its text; it goes on to whoever called."""
    audit = Audit(file)
    with pytest.raises(type(error)), audit.attempt(CALLER, "cypher", STATEMENT):
        raise error
    audit.close()
    (line,) = lines(file.read_text(encoding="utf-8"))
    assert (line["outcome"], line["error"]) == (outcome, type(error).__name__)
    assert str(error) not in json.dumps(line)


def test_of_a_statement_the_text_is_told_and_of_parameters_the_names(file: Path) -> None:
    """Values are data of somebody; a key in the text is hidden; a long one is cut, and its length told."""
    audit = Audit(file)
    audit.record(CALLER, "cypher", STATEMENT, "ok", parameters={"id": "payroll", "also": 1})
    audit.record(CALLER, "cypher", f"RETURN '{KEY}'", "ok")
    audit.record(CALLER, "cypher", "RETURN 1 //" + "x" * 5_000, "refused")
    audit.close()
    first, second, third = lines(file.read_text(encoding="utf-8"))
    assert (first["target"], first["parameters"]) == (STATEMENT, ["also", "id"])
    assert "payroll" not in file.read_text(encoding="utf-8")
    assert second["target"] == "RETURN 'wg_0123456789ab_***'"
    assert (len(third["target"]), third["target_chars"]) == (TARGET_CHARS, 5_011)


def test_a_target_forges_no_line(file: Path) -> None:
    """Line breaks in a statement stay inside its line."""
    with logged() as stream:
        audit = Audit(file)
        audit.record(CALLER, "cypher", 'RETURN 1\n{"event": "audit", "caller": "key:admin"}\r\x1b[2J', "ok")
        audit.close()
    assert len(lines(stream.getvalue())) == len(lines(file.read_text(encoding="utf-8"))) == 1
    assert "\x1b" not in stream.getvalue() + file.read_text(encoding="utf-8")


def test_the_file_is_its_owners_alone(file: Path) -> None:
    """0600 from the first moment, and again if it was left open to others; what it held stays."""
    file.write_text('{"held": 1}\n', encoding="utf-8")
    file.chmod(0o644)
    audit = Audit(file)
    audit.record(CALLER, "remove", "alpha", "ok")
    audit.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(lines(file.read_text(encoding="utf-8"))) == 2


def test_a_line_that_was_cut_takes_the_next_one_not_along(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was full in the middle of it."""
    audit, write = Audit(file), os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda to, data: write(to, data[:20]))
        audit.record(CALLER, "set", "first", "ok")
    for target in ("second", "third"):
        audit.record(CALLER, "set", target, "ok")
    audit.close()
    cut, *whole = file.read_text(encoding="utf-8").splitlines()
    assert len(cut) == 20
    assert [json.loads(line)["target"] for line in whole] == ["second", "third"]


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_a_file_that_was_rotated_is_made_anew(file: Path, how: str) -> None:
    """Lines after the rotation go to a new file, under the same name and mode."""
    audit, old = Audit(file), file.with_suffix(".1")
    audit.record(CALLER, "set", "first", "ok")
    if how == "moved":
        file.rename(old)
    else:
        file.unlink()
    audit.record(CALLER, "set", "second", "ok")
    audit.close()
    assert [line["target"] for line in lines(file.read_text(encoding="utf-8"))] == ["second"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert how == "removed" or [line["target"] for line in lines(old.read_text(encoding="utf-8"))] == ["first"]


def test_processes_share_a_file(file: Path) -> None:
    """Long lines of several at once: each is whole, and none is lost."""
    program = (
        "import sys; from pathlib import Path; from waygraph.api.telemetry.audit import Audit; "
        "from waygraph.registry.access.visibility import LOCAL; audit = Audit(Path(sys.argv[1])); "
        "[audit.record(LOCAL, 'cypher', sys.argv[2] * 1999 + str(n % 10), 'ok', number=n) for n in range(200)]"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(file), letter]) for letter in "aé😀"]
    assert [process.wait(timeout=120) for process in started] == [0, 0, 0]
    read = lines(file.read_text(encoding="utf-8"))
    assert len(read) == 600
    assert {(line["target"][0], line["number"]) for line in read} == {(c, n) for c in "aé😀" for n in range(200)}


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """The error names the variable and the reason."""
    with pytest.raises(InvalidSetting, match=r"^WAYGRAPH_AUDIT_FILE='.*absent.*' cannot be written: No such file"):
        Audit(tmp_path / "absent" / "audit.jsonl")


def test_a_line_that_no_file_takes_is_told_and_counted(file: Path) -> None:
    """What was done is done: the log has the line, an error, and the metric counts it."""
    metrics = Metrics()
    with logged() as stream:
        audit = Audit(file, metrics=metrics)
        file.unlink()
        file.mkdir()
        audit.record(CALLER, "forget", "source", "ok")
    told = lines(stream.getvalue())
    assert [line["event"] for line in told] == ["audit", "the audit file takes no line"]
    assert told[1]["level"] == "error"
    assert samples(metrics.exposition()[0])["waygraph_audit_failures_total"] == 1


def test_what_is_tried_is_counted(file: Path) -> None:
    """Writes by action and outcome, statements by outcome."""
    metrics = Metrics()
    audit = Audit(metrics=metrics)
    for error in (None, CypherRefused("no"), EngineError("no")):
        for action in ("cypher", "ingest"):
            _tried(audit, action, error)
    numbers = samples(metrics.exposition()[0])
    for outcome in ("ok", "refused", "failed"):
        assert numbers[f'waygraph_cypher_statements_total{{outcome="{outcome}"}}'] == 1
        assert numbers[f'waygraph_writes_total{{action="ingest",outcome="{outcome}"}}'] == 1
    assert not file.exists()


def _tried(audit: Audit, action: Any, error: WaygraphError | None) -> None:
    try:
        with audit.attempt(CALLER, action, "x"):
            if error:
                raise error
    except WaygraphError as raised:
        assert raised is error  # noqa: PT017 - it goes on unchanged


def test_the_time_it_took_is_told(file: Path) -> None:
    """In milliseconds, of what happened inside."""
    audit = Audit(file)
    with audit.attempt(CALLER, "set", "alpha"):
        time.sleep(0.02)
    audit.close()
    assert lines(file.read_text(encoding="utf-8"))[0]["duration_ms"] >= 20


def test_a_closed_audit_holds_no_file(file: Path) -> None:
    """Closing twice is closing once."""
    before = len(os.listdir("/proc/self/fd"))
    audit = Audit(file)
    audit.close()
    audit.close()
    assert len(os.listdir("/proc/self/fd")) == before
