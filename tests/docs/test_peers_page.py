"""The comparison with other libraries on evals/README.md is what its record says; `make docs` writes it anew."""

import json

from benchmarks.__main__ import PAGES
from benchmarks.peers.table import BEGIN, END, comparison_markdown
from benchmarks.record import PROJECT


def test_the_comparison_is_that_of_its_record() -> None:
    record = json.loads((PROJECT / "evals" / "peers.json").read_bytes())
    assert f"{BEGIN}\n\n{comparison_markdown(record)}\n\n{END}" in PAGES.page.read_text(encoding="utf-8")
