"""What a gateway has ready before it is asked."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from waygraph.api.mcp import stdio as loading
from waygraph.registry.registry import Registry
loading.FIRST_QUESTIONS_S = float(sys.argv[2])
with Registry.open(sys.argv[1]) as registry, loading.loading(registry):
    until = time.monotonic() + 30
    while time.monotonic() < until and "jsonschema.validators" not in sys.modules and sys.argv[2] == "0":
        time.sleep(0.01)
print("jsonschema.validators" in sys.modules)
"""


@pytest.mark.parametrize(("first_questions_s", "is_there"), [("0", "True"), ("60", "False")])
def test_what_checks_a_calls_arguments_comes_after_the_first_questions(
    first_questions_s: str, is_there: str, tmp_path: Path
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "none.grafeo"), first_questions_s],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert told.stdout.split() == [is_there]
