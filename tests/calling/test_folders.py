"""What configurations below a folder start: nothing, before a person names them or says yes to them."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.calling.opened_here import Here
from tests.upstream.served import served
from waygraph.ingest import ingest
from waygraph.ingest.manifest.records import Manifest, StdioLaunch
from waygraph.ingest.manifest.trust_store import VouchedServer, VouchedSource, launch_digest
from waygraph.ingest.pipeline import Ingestion, open_given
from waygraph.ingest.sources.read import NOT_IN_REHEARSALS, NOT_STARTED
from waygraph.ingest.sync.apply import sync
from waygraph.ingest.watch.run import FollowedSource, followed_sources
from waygraph.registry.model.changes import AgentEntry, SyncReport
from waygraph.registry.model.errors import InvalidSetting, NotCallable, SourceError
from waygraph.registry.model.identity import sealed_agent
from waygraph.registry.model.nouns import Agent
from waygraph.registry.storage.local_registry import LocalRegistry

TIDES = Path(__file__).parents[1] / "hosts" / "tides.py"


def put(here: Here, place: str, key: str = "scales", **more: object) -> Path:
    """A configuration below the folder `got`."""
    return Path(here.config({key: {**here.entry, **more}}, f"got/{place}"))


def noted(report: SyncReport) -> list[tuple[str, str]]:
    """The file and the beginning of the reason of each note."""
    return [(Path(each.where).name, each.reason.partition(" (")[0]) for each in report.changes.cut]


def take(here: Here, given: Any, *, dry_run: bool = False, **options: Any) -> SyncReport:
    terms = Ingestion(opening=here.opening(**options), dry_run=dry_run, allow_mass_removal=True)
    [done] = terms.ingest(here.registry, open_given(given, terms.opening))
    return done.report


def _link(to: Path, name: Path) -> str:
    name.symlink_to(to)
    return str(name)


def _linked_file(here: Here) -> str:
    folder = here.folder / "other"
    folder.mkdir()
    (folder / "mine.json").symlink_to(here.folder / "got" / "plugin" / "mcp.json")
    return str(folder)


PLACES: dict[str, Callable[[Here], str]] = {
    "a folder": lambda here: str(here.folder / "got"),
    "a folder with a dot": lambda here: f"{here.folder}/./got/",
    "a link to a folder": lambda here: _link(here.folder / "got", here.folder / "linked"),
    "a glob": lambda here: f"{here.folder}/got/*/*.json",
    "a glob of any depth": lambda here: f"{here.folder}/got/**/*.json",
    "a glob that fits one file": lambda here: f"{here.folder}/got/plugin/mc?.json",
    "a folder that links to a file elsewhere": _linked_file,
}


@pytest.mark.parametrize("place", PLACES)
def test_what_a_folder_brings_along_is_listed_and_not_started(here: Here, place: str) -> None:
    """Until a person says yes to what is there; then it is started, and callable."""
    put(here, "plugin/mcp.json")
    given = PLACES[place](here)
    assert [reason for _, reason in noted(take(here, given))] == [NOT_STARTED]
    assert ([agent.id for agent in here.registry.agents()], here.starts) == (["scales"], 0)
    with pytest.raises(NotCallable):
        here.launches.of(here.registry.agent("scales"))
    assert noted(take(here, given, start=True)) == []
    assert here.starts == 1
    assert isinstance(here.launches.of(here.registry.agent("scales")), StdioLaunch)


@pytest.mark.parametrize("connect", [None, True])
def test_no_address_that_a_folder_brings_along_is_asked(here: Here, connect: bool | None) -> None:
    """Also with `--connect`, which is a yes to what was named."""
    with served() as server:
        here.config({"far": {"url": server.url}}, "got/mcp.json")
        take(here, str(here.folder / "got"), connect=connect)
        assert server.headers == []
        take(here, str(here.folder / "got"), start=True)
        assert server.headers


def test_a_file_that_was_named_is_started_wherever_it_lies(here: Here) -> None:
    path = put(here, "plugin/mcp.json")
    assert noted(take(here, str(path))) == []
    assert noted(take(here, _link(path, here.folder / "mine.json"))) == []
    assert here.starts == 2


def test_the_python_call_starts_no_folder_either(here: Here) -> None:
    put(here, "mcp.json")
    folder = here.folder / "got"
    with LocalRegistry.open(":memory:", settings=here.settings, embedder="none", environ={}) as registry:
        [report] = ingest(registry, folder, environ=here.environ)
        assert (noted(report), here.starts) == ([("mcp.json", NOT_STARTED)], 0)
        ingest(registry, folder, environ=here.environ, start=True)
        assert here.starts == 1
        with pytest.raises(InvalidSetting):
            ingest(registry, folder, start=True, connect=False)


@pytest.mark.parametrize("options", [{}, {"start": True}, {"connect": True}])
@pytest.mark.parametrize("given", ["file", "folder", "glob", "command", "address", "memory"])
def test_a_dry_run_starts_nothing_and_keeps_what_is_known(here: Here, given: str, options: dict[str, Any]) -> None:
    """Whatever is named. The server stands in the report, with its known tools once it was asked."""
    path = put(here, "mcp.json")
    with served() as server:
        things: dict[str, Any] = {
            "file": str(path),
            "folder": str(path.parent),
            "glob": f"{path.parent}/*.json",
            "command": here.command,
            "address": server.url,
            "memory": {"mcpServers": {"scales": here.entry}},
        }
        options = options | ({"source": "mine"} if given == "memory" else {})
        report = take(here, things[given], dry_run=True, **options)
        assert len(report.changes.created_agents) == 1
        assert {reason for _, reason in noted(report)} <= {NOT_IN_REHEARSALS, NOT_STARTED}
        assert (here.starts, server.headers, here.vouched.exists()) == (0, [], False)
        take(here, things[given], **options | {"start": True})
        asked = here.starts, len(server.headers)
        known = take(here, things[given], dry_run=True, **options)
        assert (known.changes.unchanged_agents, known.changes.unchanged_tools > 0) == (1, True)
        assert (here.starts, len(server.headers)) == asked


def test_no_connect_starts_no_command_that_was_named(here: Here) -> None:
    report = take(here, here.command, connect=False)
    assert (len(report.changes.created_agents), here.starts) == (1, 0)


def agreed(here: Here) -> str:
    """A folder of which a person had the one server started."""
    put(here, "plugin/mcp.json")
    given = str(here.folder / "got")
    take(here, given, start=True)
    assert here.starts == 1
    return given


def test_what_was_asked_before_is_asked_again_and_what_is_new_waits(here: Here) -> None:
    given = agreed(here)
    put(here, "another/mcp.json", "newcomer")
    assert noted(take(here, given)) == [("mcp.json", NOT_STARTED)]
    assert here.starts == 2
    assert {agent.id for agent in here.registry.agents()} == {"scales", "newcomer"}
    assert here.registry.tools("scales")


def test_it_is_asked_again_from_another_folder_and_by_another_spelling(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder in which it was started when the person said so."""
    agreed(here)
    elsewhere = here.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    there = replace(here.surroundings, cwd=str(elsewhere))
    [source] = open_given("../got", replace(here.opening(), surroundings=there))
    [server] = source.parts().servers
    assert isinstance(server.launch, StdioLaunch)
    assert server.launch.cwd == str(here.folder)


def _move_behind_link(here: Here) -> None:
    """Under another project, whose folder it would run in."""
    plugin = here.folder / "got" / "plugin"
    (plugin / "mcp.json").rename(here.folder / "kept.json")
    (here.folder / "got" / "a").mkdir()
    (here.folder / "got" / "a" / "mcp.json").symlink_to(here.folder / "kept.json")


CHANGES: dict[str, Callable[[Here], object]] = {
    "another program": lambda here: put(here, "plugin/mcp.json", command="/bin/sh"),
    "another argument": lambda here: put(here, "plugin/mcp.json", args=[*here.command[1:], "--more"]),
    "another value": lambda here: put(here, "plugin/mcp.json", env={"LD_PRELOAD": "./evil"}),
    "another folder": lambda here: put(here, "plugin/mcp.json", cwd=str(here.folder)),
    "an address": lambda here: here.config({"scales": {"url": "http://127.0.0.1:9/mcp"}}, "got/plugin/mcp.json"),
    "the same in another file": lambda here: os.renames(
        here.folder / "got" / "plugin" / "mcp.json", here.folder / "got" / "moved" / "mcp.json"
    ),
    "a link to the same": _move_behind_link,
    "what cannot be read as a launch": lambda here: here.config({"scales": {"command": 3}}, "got/plugin/mcp.json"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_became_another_waits_and_what_is_held_of_it_stays(here: Here, change: str) -> None:
    """It is not called as it is now; put back as it was, it counts as it did."""
    given = agreed(here)
    tools = here.registry.tools("scales")
    CHANGES[change](here)
    take(here, given)
    assert (here.starts, here.registry.tools("scales")) == (1, tools)
    with pytest.raises(NotCallable):
        here.launches.of(here.registry.agent("scales"))
    put(here, "plugin/mcp.json")
    take(here, given)
    assert here.starts == 2
    assert isinstance(here.launches.of(here.registry.agent("scales")), StdioLaunch)


@pytest.mark.parametrize("name", ["a.json", "z.json"])
def test_another_file_that_takes_the_name_takes_nothing_else(here: Here, name: str) -> None:
    """Whichever comes first by its path: the server that was asked before is asked as it was."""
    given = agreed(here)
    here.config({"scales": {"command": "touch", "args": [str(here.folder / "evil")]}}, f"got/{name}")
    assert noted(take(here, given)) == [(name, NOT_STARTED)]
    assert (here.starts, (here.folder / "evil").exists()) == (2, False)
    launch = here.launches.of(here.registry.agent("scales"))
    assert isinstance(launch, StdioLaunch)
    assert launch.command == here.command[0]


def test_what_a_registry_calls_its_source_was_named_by_nobody(here: Here) -> None:
    """Others write into a registry, too: its sources are followed with what was asked here before."""
    path = put(here, "mcp.json")
    assert noted(take(here, str(path), is_named=False)) == [("mcp.json", NOT_STARTED)]
    assert here.starts == 0
    take(here, str(path))
    take(here, str(path), is_named=False)
    assert here.starts == 2


def follow(here: Here, given: str, **options: Any) -> FollowedSource:
    [source] = followed_sources([given], [], here.opening(**options))
    return source


def asked(source: FollowedSource) -> set[str]:
    """The keys of the servers that a watch has started after a look."""
    return {server.key for server in source.say().servers}


def test_a_watch_starts_what_is_there_at_the_yes_and_nothing_that_comes_later(here: Here) -> None:
    put(here, "first/mcp.json", "first")
    given = str(here.folder / "got")
    assert asked(follow(here, given)) == set()
    source = follow(here, given, start=True)
    put(here, "later/mcp.json", "later")
    assert asked(source) == asked(source) == {"first"}
    put(here, "first/mcp.json", "first", env={"A": "changed"})
    assert asked(source) == set()


def test_a_path_that_became_a_file_was_not_named_as_one(here: Here) -> None:
    """A folder that is followed, a pattern, and what could not be read at first."""
    put(here, "folder/none.json", disabled=True)
    folder, pattern, broken = (here.folder / name for name in ("got/folder", "got/[x]y", "got/broken.json"))
    Path(here.folder, "got/xy").write_text('{"waygraph": 1, "agents": []}')
    broken.mkdir()
    (broken / "a.json").write_text("{")
    sources = [follow(here, str(place)) for place in (folder, pattern, broken)]
    for place, (inner, *_) in ((folder, ["none.json"]), (broken, ["a.json"])):
        (place / inner).unlink()
        place.rmdir()
    for place in (folder, pattern, broken):
        place.write_text(json.dumps({"mcpServers": {"scales": here.entry}}))
    assert [asked(source) for source in sources] == [set(), set(), set()]


def test_a_file_that_was_named_is_followed_with_its_changes(here: Here) -> None:
    path = put(here, "mcp.json", "one")
    source = follow(here, str(path))
    put(here, "mcp.json", "two")
    assert asked(source) == {"two"}


def beside(here: Here) -> Here:
    """Another registry of the same person."""
    other = Here(here.folder, LocalRegistry.open(here.folder / "second.grafeo", embedder="none", environ={}))
    assert other.vouched == here.vouched
    return other


def test_registries_with_sources_of_one_name_do_not_disturb_each_other(here: Here) -> None:
    [agent] = here.ingest_command(here.command, source="servers")
    other = beside(here)
    other.program = here.folder / "other.py"
    other.program.write_text(here.program.read_text())
    [theirs] = other.ingest_command(other.command, source="servers")
    assert isinstance(here.launches.of(agent), StdioLaunch)
    assert isinstance(other.launches.of(theirs), StdioLaunch)
    other.ingest_command(other.command, source="servers", connect=False)
    assert isinstance(here.launches.of(agent), StdioLaunch)
    with pytest.raises(NotCallable):
        other.launches.of(theirs)


def test_a_yes_in_one_registry_is_none_in_another(here: Here) -> None:
    given = agreed(here)
    other = beside(here)
    take(other, given)
    assert here.starts == 1
    with pytest.raises(NotCallable):
        other.launches.of(other.registry.agent("scales"))


def test_a_server_that_calls_itself_a_gateway_is_left_out(here: Here) -> None:
    """Whatever started it; named by itself it is an error."""
    entry = {"command": sys.executable, "args": [str(TIDES)], "env": {"CALLED": "Waygraph"}}
    path = here.config({"wrapped": entry, "scales": here.entry})
    report = take(here, path)
    assert [agent.id for agent in here.registry.agents()] == ["scales"]
    assert [each.reason.partition(":")[0] for each in report.changes.cut] == ["wrapped"]
    with pytest.raises(SourceError, match="gateway"):
        take(here, [sys.executable, str(TIDES)], env={"CALLED": "waygraph"})


def test_an_entry_of_waygraph_is_neither_listed_nor_started_nor_called(here: Here) -> None:
    """Also where it is switched off; named by itself it is an error."""
    gateway = {"command": "sh", "args": ["-c", f"touch {here.folder}/ran; exec waygraph --registry other mcp"]}
    path = here.config({"own": gateway, "off": {**gateway, "disabled": True}, "scales": here.entry})
    report = take(here, path)
    assert [agent.id for agent in here.registry.agents()] == ["scales"]
    assert len(report.changes.cut) == 2
    assert not (here.folder / "ran").exists()
    with pytest.raises(SourceError, match="gateway"):
        take(here, ["uvx", "waygraph", "mcp"])


def test_a_gateway_that_is_held_from_before_is_not_started(here: Here) -> None:
    """An earlier version took it in, and a person had it asked then."""
    transport = json.dumps({"command": "waygraph", "args": ["mcp"]})
    agent = sealed_agent(Agent(id="own", name="own", kind="mcp_server", transport=transport))
    sync(here.registry, Manifest(source="s", rank=1, entries=(AgentEntry(key="own", agent=agent),)))
    here.vouched_file.keep("s", VouchedSource(servers={"own": VouchedServer(launch=launch_digest(transport))}))
    with pytest.raises(NotCallable, match="gateway"):
        here.launches.of(here.registry.agent("own"))
