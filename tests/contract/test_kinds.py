"""Every kind of source: told from its content, read whole, a bad record costs only itself, and no secret gets in."""

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.world import data_folder
from tests.contract.kind_samples import PLANTED, REAL_FILES, SAMPLES, Place, RealFile, Sample
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.kinds import kind_of, known_kinds
from waygraph.ingest.sources.parse import parse
from waygraph.ingest.sources.read import Listing, Reading, list_path, read_listing, read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.identity import sealed_agent
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

S = Settings()
every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)


class Written:
    """A sample on disk: its parsed document, and what is read when values of it are others."""

    def __init__(self, sample: Sample, folder: Path) -> None:
        self.path = sample.write(sample.document, folder)
        self.listing = list_path(str(self.path))
        [(self.where, content)] = self.listing.files
        self.document = parse(self.where, content, S)

    def with_value(self, place: Place, value: object) -> Manifest:
        """Raises SourceError."""
        document = deepcopy(self.document)
        target = document
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value
        return self.read(document)

    def without(self, place: Place) -> Manifest:
        document = deepcopy(self.document)
        target = document
        for key in place[:-1]:
            target = target[key]
        del target[place[-1]]
        return self.read(document)

    def read(self, document: Any) -> Manifest:
        text = json.dumps(document)
        if self.where.endswith(".jsonl"):
            text = "\n".join(json.dumps(record) for record in document)
        listing = Listing(
            files=[(self.where, lambda most_bytes: text.encode()[:most_bytes])],
            source=self.listing.source,
            namespace=self.listing.namespace,
        )
        [manifest] = read_listing(listing, Reading(settings=S))
        return manifest

    def pointer(self, place: Place) -> str:
        """How a fault there is named, at least in its beginning."""
        parts = (str(part).replace("~", "~0").replace("/", "~1") for part in place)
        return "#/" + "/".join(parts)


@pytest.fixture
def written(sample: Sample, tmp_path: Path) -> Written:
    return Written(sample, tmp_path)


def told(manifest: Manifest) -> dict[str, str]:
    """Agent's key, or `key/tool` → hash of its content; an agent's without tags, which may be those of its tools."""
    agents = {entry.key: sealed_agent(replace(entry.agent, tags=())).content_hash for entry in manifest.entries}
    return agents | {f"{e.key}/{tool.name}": tool.content_hash for e in manifest.entries for tool in e.tools}


def others(sample: Sample, of: Mapping[str, str], lost: str) -> dict[str, str]:
    """Without an agent and its tools; or without a tool, and what its agent says, which may tell of its tools."""
    if lost in sample.agents:
        return {name: content for name, content in of.items() if name != lost and not name.startswith(f"{lost}/")}
    return {name: content for name, content in of.items() if name not in (lost, owner_of(sample, lost))}


def owner_of(sample: Sample, tool: str) -> str:
    [owner] = [key for key in sample.agents if tool.startswith(f"{key}/")]
    return owner


def test_every_kind_has_a_sample() -> None:
    assert {sample.kind for sample in SAMPLES} == {kind.name for kind in known_kinds()}
    assert len({str(sample) for sample in SAMPLES}) == len(SAMPLES)


@every_sample
def test_the_kind_is_told_from_the_content(sample: Sample, written: Written) -> None:
    """Where another kind would take it too, that one is known, and comes later."""
    assert [kind.name for kind in known_kinds() if kind.fits(written.document)] == [sample.kind, *sample.also]
    assert kind_of(written.document, "here").name == sample.kind


@every_sample
def test_everything_goes_in(sample: Sample, written: Written) -> None:
    """Each agent under its key, each tool under its name, nothing rejected; told the kind, the same."""
    [manifest] = read_path(str(written.path), S)
    tools = {entry.key: sorted(tool.name for tool in entry.tools) for entry in manifest.entries}
    assert tools == {key: sorted(names) for key, names in sample.agents.items()}
    assert manifest.rejected == ()
    assert not manifest.partial
    assert [manifest] == read_path(str(written.path), S, kind=sample.kind)


@every_sample
def test_reading_twice_gives_the_same(sample: Sample, written: Written) -> None:
    [first], [second] = read_path(str(written.path), S), read_path(str(written.path), S)
    assert first == second
    assert told(written.read(reversed_keys(written.document))) == told(first)


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(item) for key, item in reversed(value.items())}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@every_sample
def test_no_secret_is_in_what_was_read(sample: Sample, written: Written) -> None:
    """Wherever the kind may write one: the entry has a reference in its place."""
    assert (PLANTED in json.dumps(written.document)) is not sample.secretless
    [manifest] = read_path(str(written.path), S)
    assert PLANTED not in repr(manifest)


RECORDS = [pytest.param(sample, place, id=f"{sample} {place}") for sample in SAMPLES for place in sample.records]


@pytest.mark.parametrize(("sample", "place"), RECORDS)
@pytest.mark.parametrize("bad", [5, "text", True, [], [[]]], ids=repr)
def test_a_mangled_record_costs_only_itself(written: Written, sample: Sample, place: Place, bad: object) -> None:
    """It is rejected, with its place; all else is as it was, what is held of it included."""
    whole, lost = told(written.read(written.document)), sample.records[place]
    manifest = written.with_value(place, bad)
    kept = told(manifest)
    assert lost not in kept
    assert others(sample, kept, lost) == others(sample, whole, lost)
    assert lost in sample.agents or owner_of(sample, lost) in kept
    assert any(written.pointer(place) in rejected.where for rejected in manifest.rejected), manifest.rejected
    assert all(rejected.reason for rejected in manifest.rejected)


NAMES = st.sampled_from("name id url tools skills description metadata servers transport env headers type".split())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("x" * 200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | NAMES, inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, above: Place = ()) -> list[Place]:
    """Of every value in a document, the document itself apart."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [((*above, key), item) for key, item in parts]
    return [place for at, item in found for place in (at, *places(item, at))]


def record_of(sample: Sample, place: Place) -> str:
    """What the record stands for that holds the place; empty if it is outside all of them."""
    holding = [record for record in sample.records if place[: len(record)] == record]
    return sample.records[min(holding, key=len)] if holding else ""


@every_sample
@given(data=st.data())
def test_any_value_anywhere_costs_at_most_its_record(sample: Sample, written: Written, data: st.DataObject) -> None:
    """Nothing but SourceError is raised, and that only for a value outside the records."""
    place = data.draw(st.sampled_from(places(written.document)), label="place")
    value = data.draw(json_values, label="value")
    lost = record_of(sample, place)
    whole = told(written.read(written.document))
    try:
        manifest = written.with_value(place, value)
    except SourceError:
        assert not lost
        return
    assert len(json.dumps([rejected.where + rejected.reason for rejected in manifest.rejected])) < 100_000
    if lost:
        kept = told(manifest)
        assert others(sample, whole, lost).items() <= kept.items()
        # The record itself is there, as it is or under another name, or it is told why not.
        assert len(manifest.entries) == len(sample.agents) or manifest.rejected or manifest.cut
        assert lost in sample.agents or len(kept) == len(whole) or manifest.rejected or manifest.cut


@every_sample
def test_a_source_comes_stays_and_goes(sample: Sample, written: Written) -> None:
    """Ingested, unchanged when ingested again, and without each record in turn when that is gone."""
    agents, tools = len(sample.agents), sum(map(len, sample.agents.values()))
    with Registry.open(":memory:", embedder="none") as registry:
        [manifest] = read_path(str(written.path), S)
        first = sync(registry, manifest).changes
        assert (len(first.created_agents), len(first.created_tools)) == (agents, tools)
        again = sync(registry, read_path(str(written.path), S)[0]).changes
        assert again.is_empty
        assert (again.unchanged_agents, again.unchanged_tools) == (agents, tools)
        for place, gone in reversed(list(sample.records.items())):
            less = sync(registry, written.without(place), allow_mass_removal=True).changes
            removed = {f"{name}" for name in (*less.removed_agents, *less.removed_tools)}
            expected = {entry.agent.id for entry in manifest.entries if entry.key == gone} | {
                tool.id for e in manifest.entries for tool in e.tools if f"{e.key}/{tool.name}" == gone
            }
            assert expected
            assert expected <= removed
            back = sync(registry, manifest).changes
            assert set(back.created_agents) | set(back.created_tools) == removed


@pytest.mark.parametrize("real", REAL_FILES, ids=str)
def test_real_files_go_in_whole(real: RealFile) -> None:
    """Every agent and tool that is in them, each under an id of its own; every rejected record counted."""
    path = data_folder(os.environ) / real.path
    if not path.is_file():
        pytest.skip(f"no {real.path}: give the data's folder by WAYGRAPH_BENCH_DATA")
    [(where, content)] = list_path(str(path)).files
    document = parse(where, content, S)
    assert [kind.name for kind in known_kinds() if kind.fits(document)] == [real.kind]
    [manifest] = read_path(str(path), S)
    assert len(manifest.entries) == real.agents
    assert sum(len(entry.tools) for entry in manifest.entries) == real.tools
    assert len(manifest.rejected) == real.rejected, manifest.rejected
    assert len({entry.agent.id for entry in manifest.entries}) == real.agents
    assert all(entry.agent.name.strip() for entry in manifest.entries)
