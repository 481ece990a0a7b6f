"""How many of the mutants in evals/mutation/mutants.json the tests kill: `python -m scripts.mutation_check [--of N/M]`.

A mutant is one line of the product written wrong: a comparison turned, a filter or a check left out, a field forgotten,
an `await` lost. First every test runs once, and it is noted which of them call a mutated function; then each mutant is
written in place, those tests run, and the line is put back. A mutant is killed if one of them fails.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("WAYGRAPH_MUTATED", Path(__file__).parents[1])).resolve()
MUTANTS, CALLERS, RESULT = (
    ROOT / "evals" / "mutation" / name for name in ("mutants.json", "callers.json", "result.json")
)
MOST_TESTS = 100
"""For each mutant, those in the same process first; none that needs a Neo4j, which would be started for each."""
TIMEOUT_S = 300
_TOOL = 4


def read_mutants() -> list[dict[str, str]]:
    return json.loads(MUTANTS.read_text())


class CallerPlugin:
    """Notes which tests call a function that has a mutant; each process of the tests writes a file of its own."""

    def __init__(self) -> None:
        self._names = {(each["file"], each["function"]) for each in read_mutants()}
        self._paths: dict[str, str] = {}
        self._test = ""
        self._callers: dict[str, set[str]] = defaultdict(set)
        sys.monitoring.use_tool_id(_TOOL, "mutants")
        sys.monitoring.register_callback(_TOOL, sys.monitoring.events.PY_START, self._note)
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.PY_START)

    def _note(self, code: object, _: int) -> object:
        name: str = code.co_filename  # type: ignore[attr-defined]
        if name not in self._paths:
            real = Path(name).resolve() if os.path.isabs(name) else Path(name)
            self._paths[name] = str(real.relative_to(ROOT)) if real.is_relative_to(ROOT) else ""
        key = self._paths[name], code.co_name  # type: ignore[attr-defined]
        if key not in self._names:
            return sys.monitoring.DISABLE
        self._callers["::".join(key)].add(self._test)
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid

    def pytest_sessionfinish(self) -> None:
        found = {key: sorted(tests - {""}) for key, tests in self._callers.items()}
        CALLERS.with_suffix(f".{os.getpid()}.json").write_text(json.dumps(found))


def pytest_configure(config: pytest.Config) -> None:
    """This module is a plugin of pytest itself in the first run."""
    config.pluginmanager.register(CallerPlugin())


def note_callers() -> dict[str, list[str]]:
    """function → the tests that call it."""
    if not CALLERS.exists():
        run_tests(["-p", "scripts.mutation_check", "-n", "3", "-m", "not slow"], timeout_s=None)
        merged: dict[str, set[str]] = defaultdict(set)
        for part in CALLERS.parent.glob("callers.*.json"):
            for key, tests in json.loads(part.read_text()).items():
                merged[key].update(tests)
            part.unlink()
        CALLERS.write_text(json.dumps({key: sorted(tests) for key, tests in merged.items()}))
    return json.loads(CALLERS.read_text())


def run_tests(arguments: list[str], *, timeout_s: float | None) -> bool:
    """Whether all passed; a run that takes longer than `timeout_s` did not."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=timeout_s, stdout=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def kills(mutant: dict[str, str], tests: list[str]) -> bool:
    """Writes the mutant, runs the tests, and puts the line back."""
    path = ROOT / mutant["file"]
    text = path.read_text()
    if text.count(mutant["before"] + "\n") != 1:
        raise SystemExit(f"{mutant['file']}: not there once: {mutant['before'].strip()!r}")
    try:
        path.write_text(text.replace(mutant["before"] + "\n", mutant["after"] + "\n"))
        return not run_tests(["-x", *tests], timeout_s=TIMEOUT_S)
    finally:
        path.write_text(text)


def cost_of(test: str) -> tuple[int, str]:
    order = ("tests/unit", "tests/contract", "tests/calling", "tests/rest", "tests/remote")
    return next((place for place, folder in enumerate(order) if test.startswith(folder)), len(order)), test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--of", default="0/1", metavar="N/M", help="only each Mth mutant, from the Nth on")
    first, step = map(int, parser.parse_args().of.split("/"))
    callers, told = note_callers(), []
    for mutant in read_mutants()[first::step]:
        found = callers.get(f"{mutant['file']}::{mutant['function']}", ())
        tests = sorted((each for each in found if "neo4j" not in each), key=cost_of)[:MOST_TESTS]
        killed = bool(tests) and kills(mutant, tests)
        told.append({**mutant, "tests": len(tests), "killed": killed})
        verdict = "killed" if killed else "SURVIVED"
        print(f"{verdict:8} {mutant['kind']:<20} {mutant['file']} {mutant['function']}", flush=True)
        RESULT.with_suffix(f".{first}.json" if step > 1 else ".json").write_text(json.dumps(told, indent=1) + "\n")
    print(f"{sum(each['killed'] for each in told)} of {len(told)} killed")


if __name__ == "__main__":
    main()
