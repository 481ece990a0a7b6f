"""What `make house` decides by the ceilings of sizes."""

from pathlib import Path

import pytest

from scripts.measure_house import Size, imports_of, lower_ceilings, script_lines


@pytest.mark.parametrize(("now", "is_met"), [(1_001, False), (1_000, True), (996, True), (994, False)])
def test_a_size_may_neither_grow_nor_leave_its_ceiling_behind(now: int, is_met: bool) -> None:
    point = Size("code", "-", now, 1_000, 900).point
    assert (point.is_met, point.fails) == (is_met, True)


def test_ceilings_only_fall(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ceilings = tmp_path / "ceilings.toml"
    ceilings.write_text('"code" = 1000\n"tests" = 50\n', encoding="utf-8")
    monkeypatch.setattr("scripts.measure_house.CEILINGS", ceilings)
    lower_ceilings([Size("code", "-", 900, 1_000, 800), Size("tests", "-", 60, 50, 40)])
    assert ceilings.read_text(encoding="utf-8") == '"code" = 900\n"tests" = 50\n'


def test_javascript_is_counted_without_comments_and_its_imports_are_found(tmp_path: Path) -> None:
    script = tmp_path / "page.js"
    script.write_text(
        '// one\nimport { a } from "./parts.js";\n\n/* two\n three */\nconst b = "//";\nimport("../late.js");\n',
        encoding="utf-8",
    )
    assert script_lines(script) == 3
    assert list(imports_of(script)) == [tmp_path / "parts.js", tmp_path.parent / "late.js"]
