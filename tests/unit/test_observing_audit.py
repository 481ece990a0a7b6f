"""The audit: who tried what, and how it ended. A line in the log, and one in a file that only its owner reads."""

import json
import logging
import stat
import subprocess
import sys
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
from waygraph.registry.model.errors import CypherRefused, EngineError, NotAllowed, WaygraphError

STATEMENT = "MATCH (a:Agent) WHERE a.id = $id RETURN a"


@contextmanager
def logged() -> Iterator[StringIO]:
    """What the process logs meanwhile, as a service would."""
    stream, held = StringIO(), list(logging.getLogger().handlers)
    open_logs("info", stream)
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


def test_the_file_is_its_owners_alone(file: Path) -> None:
    """0600 from the first moment, and again if it was left open to others; what it held stays."""
    file.write_text('{"held": 1}\n', encoding="utf-8")
    file.chmod(0o644)
    audit = Audit(file)
    audit.record(CALLER, "remove", "alpha", "ok")
    audit.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(lines(file.read_text(encoding="utf-8"))) == 2


def test_processes_share_a_file(file: Path) -> None:
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


def test_what_is_tried_is_counted(file: Path) -> None:
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
