"""The benchmarks of the embedded store: what they count is there, and never a time."""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.processes import ProcessFailed, plain_environ
from benchmarks.store.children import MIB, run_waygraph
from benchmarks.store.durability import Kills, Reader, flip, places_of
from benchmarks.store.figure import draw_scale
from benchmarks.store.fleet import differs, fleet, number_of
from benchmarks.store.scale import LABELS, NEW, Changes, measures_of
from benchmarks.store.words import DIMENSION, Words
from benchmarks.tables import BEGIN, END, Pages, write_pages
from waygraph_lab.evaluation.plots import digest_of


def test_a_small_run_of_the_scale_benchmark_leaves_a_record(tmp_path: Path) -> None:
    """Every measure once a size, the changes in a row at the largest; whatever the machine does at the same time."""
    arguments = ["scale", "--quick", "--sizes", "30,60", "--rounds", "2", "--evals", str(tmp_path)]
    assert main(arguments, os.environ) == 0
    record = json.loads((tmp_path / "scale.json").read_bytes())
    assert record["command"] == "python -m benchmarks scale --quick --sizes 30,60 --rounds 2"
    by_size = record["details"]["values"][NEW]
    assert set(by_size["60"]) >= LABELS.keys()
    assert LABELS.keys() - by_size["30"].keys() == {"row_s", "row_growth", "row_files", "pause_ms"}
    # A file system in memory counts no written bytes.
    counts = ((name, value) for found in by_size.values() for name, value in found.items() if "written" not in name)
    assert [name for name, value in counts if value <= 0] == []
    assert by_size["60"]["first_mib"] > by_size["60"]["first_written_mib"]
    assert len({measure["name"] for measure in record["measures"]}) == len(record["measures"])


def test_the_earlier_commit_is_the_divisor() -> None:
    values = {NEW: {5_000: {"own_s": 0.5}}, "commit abc": {5_000: {"own_s": 2.0}}}
    measures = {measure.name: measure for measure in measures_of(values)}
    ours = measures[f"5000 tools, {LABELS['own_s'][0]}, {NEW}"]
    assert ours.as_json()["met"] is False
    assert measures[f"5000 tools, {LABELS['own_s'][0]}, commit abc"].target is None
    assert measures[f"5000 tools, {LABELS['own_s'][0]}, new / old"].value == 0.25


def test_changes_are_of_the_same_tools_with_other_texts() -> None:
    changes = Changes()
    [[one], [other]] = changes.next()["agents"], changes.next()["agents"]
    assert one["id"] == other["id"]
    names = [[tool["name"] for tool in agent["tools"]] for agent in (one, other)]
    assert names[0] == names[1]
    assert len(names[0]) == 10
    texts = [{tool["description"] for tool in agent["tools"]} for agent in (one, other)]
    assert not texts[0] & texts[1]


def test_a_process_is_counted_to_its_end(tmp_path: Path) -> None:
    """What it cannot do is raised with its words."""
    environ = plain_environ(os.environ)
    cost = run_waygraph(["--help"], environ)
    assert cost.peak_mib > 10
    assert cost.cpu_s > 0
    assert cost.written_mib * MIB >= 0
    with pytest.raises(ProcessFailed, match=r"nowhere\.json"):
        run_waygraph(["--registry", str(tmp_path / "r.grafeo"), "ingest", str(tmp_path / "nowhere.json")], environ)


def test_vectors_of_words_are_the_same_in_every_process() -> None:
    """Rows have length 1; a text without words has none; the order of words does not count."""
    matrix = Words().embed(["pay a bill", "bill a pay", "", "send mail"], "document")
    assert matrix.shape == (4, DIMENSION)
    assert matrix.dtype == np.float32
    assert np.linalg.norm(matrix, axis=1) == pytest.approx([1, 1, 0, 1], abs=1e-5)
    assert matrix[0] == pytest.approx(matrix[1], abs=1e-6)
    assert abs(float(matrix[0] @ matrix[3])) < 0.5
    assert Words().embed(["pay a bill"], "query")[0] == pytest.approx(matrix[0], abs=1e-6)


def test_the_figure_is_drawn_from_the_record(tmp_path: Path) -> None:
    """By `table`, as all figures; without a record there is none."""
    pytest.importorskip("matplotlib")
    values = {NEW: {"500": dict.fromkeys(LABELS, 1.0), "5000": dict.fromkeys(LABELS, 2.0)}}
    details = {"values": values}
    text = draw_scale(details, tmp_path / "direct").read_text(encoding="utf-8")
    assert digest_of(details) in text
    assert "a change, a process of its own" in text
    record = {"name": "scale", "date": "2026-01-01", "git": "a", "machine": {"cpus": 2, "model": "m"}, "measures": []}
    (tmp_path / "scale.json").write_text(json.dumps(record | {"details": details}), encoding="utf-8")
    places = Pages(page=tmp_path / "page.md", readme=tmp_path / "readme.md", figures=tmp_path / "figures")
    for page in (places.page, places.readme):
        page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    write_pages(tmp_path, ["scale"], places)
    assert (tmp_path / "figures" / "scale.svg").read_text(encoding="utf-8") == text


def test_a_few_kills_and_flips_leave_a_record(tmp_path: Path) -> None:
    """Kills lose nothing, no flipped bit ends a process, each is counted once. Some bits of the graph are silent."""
    assert main(["durability", "--quick", "--rounds", "2", "--evals", str(tmp_path)], os.environ) == 0
    record = json.loads((tmp_path / "durability.json").read_bytes())
    faults = [measure for measure in record["measures"] if measure["target"]]
    assert len(faults) == 7
    bad = {measure["name"] for measure in faults if not measure["met"]}
    assert bad <= {f"2 flipped bits of the {what}: silent" for what in ("index", "graph")}, record["details"]
    assert sum(record["details"]["kills_at"].values()) == 2
    assert [sum(seen.values()) for seen in record["details"]["flips"].values()] == [2, 2]


def test_a_document_tells_whether_it_is_whole() -> None:
    """Texts of two documents, or of a part of one, are no document's."""

    def descriptions(number: int) -> list[str]:
        agents = fleet(number)["agents"]
        return [text["description"] for agent in agents for text in (agent, *agent["tools"])]

    assert number_of(descriptions(7)) == 7
    assert number_of([*descriptions(7), "of another source"]) == 7
    assert number_of(["of another source"]) == 0
    assert number_of(descriptions(7)[1:]) is None
    assert number_of([*descriptions(7)[1:], descriptions(8)[0]]) is None


def test_other_answers_are_noticed() -> None:
    """An order, an id, a score by more than rounding, and a list."""
    read = {"number": 1, "listed": ["a"], "answers": [[["x", "", 0.5], ["y", "", 0.25]]]}
    assert not differs(read, {**read, "answers": [[["x", "", 0.500001], ["y", "", 0.25]]]})
    assert differs(read, {**read, "answers": [[["x", "", 0.50001], ["y", "", 0.25]]]})
    assert differs(read, {**read, "answers": [[["y", "", 0.25], ["x", "", 0.5]]]})
    assert differs(read, {**read, "answers": [[["x", "", 0.5]]]})
    assert differs(read, {**read, "listed": ["b"]})
    assert differs(read, {**read, "number": 2})


def test_kills_come_at_every_place_before_one_comes_twice() -> None:
    steps = ["before fsync", "after fsync", "before rename", *["before INSERT"] * 100, "before COMMIT"]
    chance = random.Random(1)  # noqa: S311 - no secret
    rows = [{1, 2}, {3}, set(range(4, 104)), {104}]
    assert all(step in row for step, row in zip(places_of(steps, 4, chance), rows, strict=True))
    assert all(step in row for step, row in zip(places_of(steps, 8, chance), rows * 2, strict=True))
    [first, last] = places_of(steps, 2, chance)
    assert (first in rows[0], last in rows[2]) == (True, True)


def test_what_is_lost_or_cannot_be_read_is_counted(tmp_path: Path) -> None:
    """A document that was acknowledged and is not there; a graph of which no index can be made any more."""
    environ = plain_environ(os.environ) | {"WAYGRAPH_EMBEDDER": "none"}
    place, documents = tmp_path / "live" / "r.grafeo", tmp_path / "fleet.json"
    place.parent.mkdir()
    documents.write_text(json.dumps(fleet(3)), encoding="utf-8")
    run_waygraph(["--registry", str(place), "ingest", str(documents)], environ)
    with Reader(environ) as reader:
        kills = Kills(place, environ, reader, tmp_path)
        kills.check("here", acknowledged=3)
        assert (kills.number, dict(kills.faults)) == (3, {})
        kills.check("there", acknowledged=4)
        assert kills.told == ["lost, there: 3 where 4 was acknowledged"]
        place.write_bytes(b"no registry" * 1000)
        kills.check("then", acknowledged=3)
        assert sum(kills.faults.values()) == 2
        assert reader.read(tmp_path / "nothing.grafeo")["ours"] is True


def test_one_bit_is_flipped(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    flip(file, random.Random(1))  # noqa: S311 - no secret
    assert sum(byte.bit_count() for byte in file.read_bytes()) == 1
