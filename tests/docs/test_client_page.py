"""The Python of docs/rest.md runs against a service."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks
from tests.service import served

WEATHER = """\
waygraph: 1
agents:
- id: gale
  description: Wind and waves at sea.
  tools: [{name: wind_at, description: The wind at a place at sea.}]
"""


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its examples, one after the other: what the first one sends, the others find."""
    (tmp_path / "weather.yaml").write_text(WEATHER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with served() as service:
        monkeypatch.setenv("URL", service.url)
        names: dict[str, object] = {}
        for block in blocks(DOCS / "rest.md", "python"):
            exec(compile(block, "docs/rest.md", "exec"), names)  # noqa: S102 - that is what is tested
        names["registry"].close()  # type: ignore[attr-defined]
    assert capsys.readouterr().out == "1 ('gale',)\ngale ['gale__wind_at']\n['gale', 'gale']\n"
