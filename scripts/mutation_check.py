"""How many of the mutants in evals/mutation/mutants.json the tests kill: `python -m scripts.mutation_check [--of N/M]`.

A mutant is one line of the product written wrong: a comparison turned, a filter or a check left out, a field forgotten,
an `await` lost. Each is written in place, its `tests` run, those of `make test` first, and the line is put back. It is
killed if one of them fails. `tests` are files chosen by hand, of those that reach the function: a mutant that survives
them may still be killed by another file. To be run on a tree whose tests pass.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MUTANTS, COMPARED = (ROOT / "evals" / "mutation" / name for name in ("mutants.json", "compared.json"))
TIERS = {"make test": "not slow and not full", "make check": "not slow and full"}
TIMEOUT_S = 300
"""Of the tests of one tier for one mutant; a run that takes longer has failed."""
PASSED, FAILED, NONE_COLLECTED = 0, 1, 5
"""Exit codes of pytest; any other is a fault of this script or of the tree."""


def passes(tests: list[str], marks: str) -> bool:
    options = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", marks)
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=TIMEOUT_S, stdout=subprocess.PIPE, text=True, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (PASSED, FAILED, NONE_COLLECTED):
        raise SystemExit(f"{' '.join(tests)}: pytest exits with {done.returncode}\n{done.stdout}")
    return done.returncode != FAILED


def killed_by(mutant: dict[str, Any]) -> str:
    """The first tier of which a test fails with the line written wrong; empty if none does."""
    path = ROOT / mutant["file"]
    text = path.read_text()
    if text.count(mutant["before"] + "\n") != 1:
        raise SystemExit(f"{mutant['file']}: not there once: {mutant['before'].strip()!r}")
    try:
        path.write_text(text.replace(mutant["before"] + "\n", mutant["after"] + "\n"))
        return next((tier for tier, marks in TIERS.items() if not passes(mutant["tests"], marks)), "")
    finally:
        path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts the mutants that the tests kill.")
    parser.add_argument("--of", default="0/1", metavar="N/M", help="only each Mth mutant, from the Nth on")
    first, step = map(int, parser.parse_args().of.split("/"))
    mutants, results = json.loads(MUTANTS.read_text())[first::step], []
    for mutant in mutants:
        tier = killed_by(mutant)
        shown = {name: mutant[name] for name in ("kind", "file", "function", "killed_before")}
        results.append({**shown, "killed_by": tier})
        print(f"{tier or 'SURVIVED':10} {mutant['kind']:<20} {mutant['file']} {mutant['function']}", flush=True)
    if step == 1:
        COMPARED.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{sum(bool(each['killed_by']) for each in results)} of {len(results)} killed")


if __name__ == "__main__":
    main()
