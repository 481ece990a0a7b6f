"""How the server of an agent is reached for a call: as a person here had it asked, with today's values."""

import json
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.calling.opened_here import Here
from tests.fake_mcp_registry import entry, fake_mcp_registry
from tests.upstream.served import served
from waygraph.ingest.execution.executor import FRESH_S
from waygraph.ingest.manifest.records import HttpLaunch, StdioLaunch
from waygraph.ingest.manifest.trust_store import launch_digest, vouched_file
from waygraph.ingest.pipeline import Ingestion
from waygraph.ingest.sources.opening import open_sources
from waygraph.ingest.watch.run import followed_sources
from waygraph.registry.model.errors import MassRemoval, NotCallable, StorageFailed


def test_a_command_is_started_as_it_was_ingested_with_today_s_variables(here: Here) -> None:
    """The graph holds the name of a variable; its value is that of the gateway's environment, at the call."""
    here.environ["SCALE_KEY"] = "value-at-ingest"
    [agent] = here.ingest_command(here.command, env={"SCALE_KEY": "${SCALE_KEY}"})
    here.environ["SCALE_KEY"] = "value-now"
    launch = here.launches.of(agent)
    assert isinstance(launch, StdioLaunch)
    assert [launch.command, *launch.args] == here.command
    assert launch.env == {"SCALE_KEY": "value-now"}
    assert launch.cwd == str(here.folder)


def test_a_variable_that_is_not_set_is_named_and_no_value_is(here: Here) -> None:
    here.environ |= {"SCALE_KEY": "s3cret-of-the-scales", "OTHER": "another-s3cret"}
    [agent] = here.ingest_command(here.command, env={"SCALE_KEY": "${SCALE_KEY}", "OTHER": "${OTHER}"})
    del here.environ["SCALE_KEY"]
    with pytest.raises(NotCallable, match="not set in the environment: SCALE_KEY") as caught:
        here.launches.of(agent)
    assert "s3cret" not in str(caught.value)


def test_what_was_only_looked_at_or_refused_lets_nothing_run(here: Here) -> None:
    """A dry run is how a changed config is looked at first; a refused ingest changes nothing."""
    many: dict[str, object] = dict.fromkeys(("scales", "b", "c"), here.entry)
    here.ingest(here.config(many))
    path = here.config({"scales": {**here.entry, "env": {"EVIL": "two"}}})
    for dry_run in (True, False):
        taken = Ingestion(opening=here.opening(), dry_run=dry_run, allow_mass_removal=dry_run)
        with nullcontext() if dry_run else pytest.raises(MassRemoval):
            list(taken.ingest(here.registry, open_sources(path, taken.opening)))
        with pytest.raises(NotCallable, match="is another than was ingested"):
            here.launches.of(here.registry.agent("scales"))
    here.ingest(path)
    assert isinstance(here.launches.of(here.registry.agent("scales")), StdioLaunch)


def test_a_server_of_a_config_has_the_values_that_stand_in_the_config(here: Here) -> None:
    path = here.config({"scales": {**here.entry, "env": {"KEY": "literal-s3cret"}}})
    [agent] = here.ingest(path)
    assert "literal-s3cret" not in agent.transport
    launch = here.launches.of(agent)
    assert isinstance(launch, StdioLaunch)
    assert launch.env == {"KEY": "literal-s3cret"}
    assert "literal-s3cret" not in here.vouched.read_text()


CODE = ["LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP"]
CODE += ["BASH_ENV", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "PATH", "GIT_SSH_COMMAND", "OF_NO_KNOWN_MEANING"]


def test_a_variable_of_a_config_that_has_another_value_now_starts_nothing(here: Here) -> None:
    """Many load code into whatever is started, and which do, only the program knows."""
    env = dict.fromkeys(CODE, "/usr/lib/good")
    path = here.config({"scales": {**here.entry, "env": env}})
    [agent] = here.ingest(path)
    launch = here.launches.of(agent)
    assert isinstance(launch, StdioLaunch)
    assert launch.env == env
    for name in CODE:
        here.config({"scales": {**here.entry, "env": env | {name: "./evil"}}})
        with pytest.raises(NotCallable, match="'scales' is another than was ingested") as caught:
            here.launches.of(agent)
        assert "evil" not in str(caught.value)


def test_a_value_that_was_looked_at_counts_once_it_is_ingested(here: Here) -> None:
    path = here.config({"scales": {**here.entry, "env": {"KEY": "old"}}})
    [agent] = here.ingest(path)
    here.config({"scales": {**here.entry, "env": {"KEY": "new"}}})
    with pytest.raises(NotCallable):
        here.launches.of(agent)
    [same] = here.ingest(path)
    assert same.transport == agent.transport, "of the graph nothing changed"
    launch = here.launches.of(same)
    assert isinstance(launch, StdioLaunch)
    assert launch.env == {"KEY": "new"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"env": {"A": "${A}"}}, {"env": {"A": "typed"}}),
        ({"env": {"A": "${A}"}}, {"env": {"A": "${A:-typed}"}}),
        ({"env": {"A": "${A}"}}, {"env": {"A": "${B}"}}),
        ({"more": ["-e", "NODE_OPTIONS=--a"]}, {"more": ["-e", "NODE_OPTIONS=--b"]}),
        ({"more": ["--token", "mine"]}, {"more": ["--token", "theirs"]}),
    ],
)
def test_whatever_a_config_says_differently_starts_nothing(
    here: Here, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Also where the graph, which has references only, would have the same."""

    def entry(said: dict[str, Any]) -> dict[str, Any]:
        return {**here.entry, "args": [*here.command[1:], *said.get("more", ())], "env": said.get("env", {})}

    here.environ |= {"A": "1", "B": "2"}
    [agent] = here.ingest(here.config({"scales": entry(before)}))
    assert isinstance(here.launches.of(agent), StdioLaunch)
    here.config({"scales": entry(after)})
    with pytest.raises(NotCallable, match="'scales' is another than was ingested"):
        here.launches.of(agent)


def test_the_file_of_variables_that_a_config_names_is_looked_at_too(here: Here) -> None:
    here.write(".env", "LD_PRELOAD=/usr/lib/good\n")
    [agent] = here.ingest(here.config({"scales": {**here.entry, "envFile": str(here.folder / ".env")}}))
    here.write(".env", "# said otherwise\nLD_PRELOAD='/usr/lib/good'\n")
    launch = here.launches.of(agent)
    assert isinstance(launch, StdioLaunch)
    assert launch.env == {"LD_PRELOAD": "/usr/lib/good"}
    here.write(".env", "LD_PRELOAD=./evil\n")
    with pytest.raises(NotCallable, match="'scales' is another than was ingested"):
        here.launches.of(agent)


def test_the_default_of_an_input_is_a_value_too(here: Here) -> None:
    def config(default: str) -> str:
        asked = {"id": "library", "type": "promptString", "default": default}
        servers = {"scales": {**here.entry, "env": {"LD_PRELOAD": "${input:library}"}}}
        return here.write("mcp.json", {"servers": servers, "inputs": [asked]})

    [agent] = here.ingest(config("/usr/lib/good"))
    assert isinstance(here.launches.of(agent), StdioLaunch)
    config("./evil")
    with pytest.raises(NotCallable, match="'scales' is another than was ingested"):
        here.launches.of(agent)


def test_a_server_that_is_moved_to_another_folder_is_not_started(here: Here) -> None:
    """Claude Code's file says in which folder a project's servers run; the name of both may be the same."""

    def config(folder: Path) -> str:
        return here.write("claude.json", {"projects": {str(folder): {"mcpServers": {"scales": here.entry}}}})

    good, evil = here.folder / "good" / "app", here.folder / "evil" / "app"
    good.mkdir(parents=True)
    [agent] = here.ingest(config(good))
    launch = here.launches.of(agent)
    assert isinstance(launch, StdioLaunch)
    assert launch.cwd == str(good)
    config(evil)
    with pytest.raises(NotCallable, match="'app/scales' is another than was ingested"):
        here.launches.of(agent)


def test_an_address_with_another_login_is_not_asked(here: Here) -> None:
    with served() as server:
        path = here.config({"far": {"url": server.url, "headers": {"Authorization": "Bearer mine"}}})
        [agent] = here.ingest(path)
        assert isinstance(here.launches.of(agent), HttpLaunch)
        here.config({"far": {"url": server.url, "headers": {"Authorization": "Bearer theirs"}}})
        with pytest.raises(NotCallable, match="'far' is another than was ingested"):
            here.launches.of(agent)


def test_the_same_values_are_noted_differently_on_each_machine(here: Here, tmp_path: Path) -> None:
    other = vouched_file(tmp_path / "other", here.registry.store.place)
    mine = here.vouched_file
    assert mine.digest_of("1234") == here.vouched_file.digest_of("1234")
    assert mine.digest_of("1234") != other.digest_of("1234")
    assert here.vouched.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("options", [{}, {"source": "my servers"}])
def test_a_config_is_found_again_under_whichever_name_and_from_whichever_folder(
    here: Here, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project's config by its relative path, ingested in its folder; the gateway runs elsewhere."""
    here.config({"scales": here.entry}, ".mcp.json")
    monkeypatch.chdir(here.folder)
    [agent] = here.ingest(".mcp.json", **options)
    monkeypatch.chdir("/")
    launch = here.launches.of(agent)
    assert isinstance(launch, StdioLaunch)
    assert (list(launch.args), launch.cwd) == (here.command[1:], str(here.folder))


def test_what_another_made_of_a_config_is_not_started(here: Here) -> None:
    """A pull that changes a project's config starts nothing new: whoever ingested it looks at it first."""
    path = here.config({"scales": here.entry})
    [agent] = here.ingest(path)
    here.config({"scales": {"command": "/bin/sh", "args": ["-c", "echo pwned"]}})
    with pytest.raises(NotCallable, match="another than was ingested"):
        here.launches.of(agent)
    here.config({"scales": here.entry | {"args": [*here.command[1:], "--verbose"]}})
    [changed] = here.ingest(path)
    assert isinstance(here.launches.of(changed), StdioLaunch)


def test_a_server_that_the_config_names_no_more_or_has_switched_off(here: Here) -> None:
    path = here.config({"scales": here.entry})
    [agent] = here.ingest(path)
    here.config({"scales": {**here.entry, "disabled": True}})
    with pytest.raises(NotCallable, match="it is switched off there"):
        here.launches.of(agent)
    here.config({})
    with pytest.raises(NotCallable, match="it is not listed there"):
        here.launches.of(agent)
    Path(path).unlink()
    with pytest.raises(NotCallable, match=r"mcp\.json: cannot be read"):
        here.launches.of(agent)


def test_an_address_that_was_logged_in_to_is_so_again(here: Here) -> None:
    with served() as server:
        [agent] = here.ingest(server.url, oauth=True)
        launch = here.launches.of(agent)
    assert isinstance(launch, HttpLaunch)
    assert launch.oauth


def test_what_is_watched_is_vouched_for_too(here: Here) -> None:
    path = here.config({"scales": here.entry})
    [source] = followed_sources([path], [], here.opening())
    source.say()
    [agent] = here.ingest(path, connect=False)
    assert here.vouched_file.source(path).servers == {}  # the last word: nothing is asked
    source.say()
    server = here.vouched_file.source(path).servers["scales"]
    assert (server.launch, server.config) == (launch_digest(agent.transport), path)


def test_a_registry_s_remotes_that_were_asked_may_be_reached_and_its_packages_never(here: Here) -> None:
    """What `--connect` did not ask stands in the same live source, and is started by nobody."""
    with served() as server:
        remote = entry("io.example/remote", remotes=[{"type": "streamable-http", "url": server.url}])
        package = entry(
            "io.example/package", packages=[{"registryType": "npm", "identifier": "evil", "version": "1.0.0"}]
        )
        with fake_mcp_registry(remote, package) as fake:
            agents = {agent.id: agent for agent in here.ingest(f"mcp-registry:{fake.url}", connect=True)}
    assert {source.rank for source in here.registry.sources()} == {1}
    launch = here.launches.of(agents["io.example.remote"])
    assert isinstance(launch, HttpLaunch)
    assert launch.url == server.url
    assert json.loads(agents["io.example.package"].transport)["command"] == "npx"
    with pytest.raises(NotCallable, match="was not asked on this machine"):
        here.launches.of(agents["io.example.package"])


def test_a_file_of_a_registry_s_entries_may_only_lead_to_the_open_internet(here: Here) -> None:
    """Its addresses are somebody else's words, also when a name leads to this machine."""
    document = {"servers": [entry("io.example/x", remotes=[{"type": "sse", "url": "https://mcp.example.com/sse"}])]}
    [source] = [here.write("entries.json", document)]
    agents = here.ingest(source, connect=True)
    launch = here.launches.of(agents[0])
    assert isinstance(launch, HttpLaunch)
    assert launch.public


def test_what_was_listed_and_not_asked_is_not_started(here: Here) -> None:
    path = here.config({"scales": here.entry})
    [agent] = here.ingest(path, connect=False)
    with pytest.raises(NotCallable, match="catalogue only"):
        here.launches.of(agent)
    assert here.starts == 0


def test_a_source_that_was_forgotten_starts_nothing(here: Here) -> None:
    [agent] = here.ingest_command(here.command)
    here.registry.operator.forget(here.registry.sources()[0].name)
    with pytest.raises(NotCallable):
        here.launches.of(agent)


def test_the_file_of_what_was_vouched_for_is_its_owner_s_and_holds_no_value(here: Here) -> None:
    here.environ["SCALE_KEY"] = "s3cret-of-the-scales"
    here.ingest_command(here.command, env={"SCALE_KEY": "${SCALE_KEY}", "OTHER": "literal-s3cret"})
    file = here.vouched
    assert file.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in file.read_text()


def test_a_file_that_is_no_such_file_is_refused_and_stays(here: Here) -> None:
    [agent] = here.ingest_command(here.command)
    file = here.vouched
    file.write_text('{"version": 1, "sources": []}')
    with pytest.raises(StorageFailed, match="is no file of what was vouched for"):
        here.launches.of(agent)
    assert file.read_text() == '{"version": 1, "sources": []}'


@pytest.mark.parametrize(("age_s", "is_found_again"), [(0.0, False), (FRESH_S - 0.25, False), (FRESH_S, True)])
async def test_a_launch_counts_for_a_second(
    here: Here, monkeypatch: pytest.MonkeyPatch, age_s: float, is_found_again: bool
) -> None:
    """Calls that follow each other do not each read the config; what is revoked is so after a second."""
    path = here.config({"scales": here.entry})
    [agent] = here.ingest(path)
    now_s = [1000.0]
    monkeypatch.setattr(anyio, "current_time", lambda: now_s[-1])
    launches = here.launches
    first = await launches.fresh(agent)
    Path(path).unlink()
    now_s.append(now_s[0] + age_s)
    with pytest.raises(NotCallable) if is_found_again else nullcontext():
        assert await launches.fresh(agent) is first


async def test_a_launch_that_is_slow_to_be_found_holds_nobody_beyond_the_deadline(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    [agent] = here.ingest_command(here.command)
    go_on = threading.Event()
    monkeypatch.setattr(type(here.launches), "of", lambda *_: go_on.wait(60))
    late = threading.Timer(50, go_on.set)
    late.start()
    began = time.monotonic()
    try:
        with anyio.move_on_after(0.1) as scope:
            await here.launches.fresh(agent)
        assert scope.cancelled_caught
        assert not go_on.is_set(), time.monotonic() - began
    finally:
        late.cancel()
        go_on.set()
