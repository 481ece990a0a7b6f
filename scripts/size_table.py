"""`python -m scripts.size_table [TOOLS…]`: measures registries of these sizes here and writes the table of
docs/operations.md. Default: the sizes of `waygraph doctor --size`.
"""

import os
import sys
from pathlib import Path

from waygraph.api.cli.commands.maintain import size_table
from waygraph.registry.embedding.factory import default_spec
from waygraph.registry.model.settings import load_settings
from waygraph.registry.storage.integrity.size import MEASURED_TOOLS, measure_sizes

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"
BEGIN, END = "<!-- sizes: begin (python -m scripts.size_table) -->", "<!-- sizes: end -->"


def main() -> None:
    """Raises NotMeasured, and ValueError if the page has no markers."""
    settings = load_settings(os.environ)
    tools = [int(each) for each in sys.argv[1:]] or MEASURED_TOOLS
    sizes = measure_sizes(settings, settings.embedder or default_spec(settings), os.environ, sizes=tools)
    tables = [size_table(sizes.measurements, "measured"), size_table(sizes.estimates, "estimated")]
    rows = [[f"{row[0]}, {table.title}", *row[1:]] for table in tables for row in table.rows]
    lines = [tables[0].columns, ["---"] * len(tables[0].columns), *rows]
    text = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
