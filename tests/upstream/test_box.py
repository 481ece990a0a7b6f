"""What a stranger's server can do in its box: read its own, and nothing else."""

import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.cli_answers import Answer, run_program
from tests.service import assert_good, served
from tests.upstream.calling import Asking
from tests.upstream.launches import PROGRAMS, listing_of
from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.records import Intake, StdioLaunch, held_transport
from waygraph.ingest.sources.formats import mcp_config
from waygraph.ingest.sources.formats.configured_server import launch_of, read_server
from waygraph.ingest.sources.opening import Opening, open_command
from waygraph.ingest.upstream.box import box_of, sandlock_library
from waygraph.ingest.upstream.box_process import MOST_WISHES
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.box_wishes import MOST_WAITING, WishFile
from waygraph.registry.model.errors import TextDiffers, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings
from waygraph.registry.operations.agents import Approve, ListWaiting
from waygraph.registry.storage.local_registry import LocalRegistry


def can_isolate() -> bool:
    try:
        return bool(sandlock_library())
    except UpstreamRefused:
        return False


pytestmark = pytest.mark.skipif(not can_isolate(), reason="this system cannot isolate servers")
HOSTILE = str(Path(__file__).parents[1] / "servers" / "hostile.py")


@pytest.fixture
def listening() -> Iterator[int]:
    """The port of a listener on this machine."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


@asynccontextmanager
async def hostile(
    data: Path,
    *args: str,
    isolate: bool | Mapping[str, tuple[str, ...]] = True,
    note_wish: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Asking]:
    launch = StdioLaunch(
        command=sys.executable, args=(HOSTILE, *args), isolate=isolate, env={"OWN_KEY": "own"}, note_wish=note_wish
    )
    with anyio.fail_after(120):
        async with connect(launch, Settings(data_dir=str(data)), follow=False) as connection:
            yield Asking(connection)


@pytest.mark.parametrize(("boxed", "by_grandchild"), [(True, False), (True, True), (False, True)])
def test_a_hostile_server_reads_writes_and_reaches_nothing_of_others(
    tmp_path: Path, listening: int, monkeypatch: pytest.MonkeyPatch, boxed: bool, by_grandchild: bool
) -> None:
    """Without the box it does all of this."""
    monkeypatch.setenv("SIBLINGS_KEY", "sk-secret")
    key, path = tmp_path / "id_ed25519", str(tmp_path / "agent.sock")
    key.write_text("PRIVATE KEY")
    sibling = tmp_path / "data" / "boxes" / "sibling"
    sibling.mkdir(parents=True)
    attempts = [
        ("read", str(key)),
        ("read", f"/proc/{os.getpid()}/environ"),
        ("read", f"/proc/{os.getpid()}/cmdline"),
        ("read", "/etc/passwd"),
        ("environments", ""),
        ("list", str(Path.home())),
        ("list", str(sibling)),
        ("write", str(tmp_path / "new")),
        ("write", f"{sibling}/new"),
        ("link", str(key)),
        ("reach", f"127.0.0.1:{listening}"),
        ("datagram", f"127.0.0.1:{listening}"),
        ("socket", path),
        ("kill", str(os.getpid())),
    ]

    async def attempt_all() -> list[bool]:
        async with hostile(tmp_path / "data", isolate=boxed) as server:
            answers = [
                await server.text("attempt_it", way=way, target=target, by_grandchild=by_grandchild)
                for way, target in attempts
            ]
            return [answer.startswith("refused") for answer in answers]

    with closing(socket.socket(socket.AF_UNIX)) as agent:
        agent.bind(path)
        agent.listen()
        refusals = anyio.run(attempt_all)
    assert [each for each, is_refused in zip(attempts, refusals, strict=True) if is_refused is not boxed] == []


def test_it_keeps_its_folder_and_environment(tmp_path: Path) -> None:
    async def attempt() -> tuple[str, str, str]:
        async with hostile(tmp_path) as server:
            home = await server.text("attempt_it", way="home")
            wrote = await server.text("attempt_it", way="write", target=f"{home}/note")
            return home, wrote, await server.text("attempt_it", way="read", target="/proc/self/environ")

    home, wrote, environment = anyio.run(attempt)
    assert Path(home).is_relative_to(tmp_path / "boxes")
    assert wrote == "wrote 1"
    assert "OWN_KEY=own" in environment


def test_what_its_entry_grants_and_its_arguments_name_is_there(tmp_path: Path, listening: int) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "granted").write_text("granted text")

    async def attempt() -> list[str]:
        grants = {"reads": (str(tmp_path / "granted"),), "reaches": (f"127.0.0.1:{listening}",)}
        async with hostile(tmp_path / "data", str(tmp_path / "notes"), isolate=grants) as server:
            return [
                await server.text("attempt_it", way="read", target=str(tmp_path / "granted")),
                await server.text("attempt_it", way="write", target=str(tmp_path / "notes" / "a")),
                await server.text("attempt_it", way="reach", target=f"127.0.0.1:{listening}"),
                await server.text("attempt_it", way="reach", target=f"127.0.0.1:{listening + 1}"),
                await server.text("attempt_it", way="write", target=str(tmp_path / "granted")),
            ]

    read, wrote, reached, *refusals = anyio.run(attempt)
    assert (read, wrote, reached) == ("granted text", "wrote 1", f"reached {listening}")
    assert all(each.startswith("refused") for each in refusals)


def test_a_refusal_is_told_and_what_was_refused_is_noted(tmp_path: Path) -> None:
    """Of hosts, which are looked up before any call that a box sees, the server's own words tell."""
    wishes = list[str]()

    async def fail(text: str) -> str:
        async with hostile(tmp_path / "data", note_wish=wishes.append) as server:
            result = await server.raw("fail", text=text)
            return " ".join(part["text"] for part in result["content"])

    assert "waygraph changes --waiting" in anyio.run(fail, "getaddrinfo ENOTFOUND api.example.com")
    assert "waygraph changes" not in anyio.run(fail, "no such issue at https://elsewhere.example.com")
    assert wishes == ["reaches api.example.com:443"]


def test_a_flood_of_wishes_is_bounded(tmp_path: Path) -> None:
    """By run and by server; a name that a terminal would obey is not noted."""
    (tmp_path / "new\nline").touch()
    paths = [tmp_path / f"{number:02}" for number in range(MOST_WAITING + 3)]
    for path in paths:
        path.touch()
    file, seen = WishFile.inside(tmp_path / "data"), list[str]()

    def note(wish: str) -> None:
        seen.append(wish)
        file.note("launch", "source", "key", wish)

    async def attempt_all() -> None:
        async with hostile(tmp_path / "data", note_wish=note) as server:
            for path in (tmp_path / "new\nline", paths[0], *paths):
                await server.text("attempt_it", way="read", target=str(path))

    anyio.run(attempt_all)
    assert seen == [f"reads {path}" for path in paths[:MOST_WISHES]]
    for path in paths:
        file.note("launch", "source", "key", f"writes {path}")
    assert len(file.content()["launch"].wishes) == MOST_WAITING
    file.note("other", "source", "key", "reads /x")
    assert file.content().keys() == {"other"}, "a server has one launch"
    file.forget("source")
    assert file.content() == {}


def test_what_a_server_asks_for_waits_for_an_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A grant holds from the next start on, at a call and at an ingest; on another machine it waits once more."""
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")
    wanted, other = tmp_path / "wanted", tmp_path / "other"
    wanted.write_text("granted text")
    other.write_text("")

    def run(*words: object, here: str = "here") -> Answer:
        monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(tmp_path / here))
        answer = run_program(capsys, "--registry", tmp_path / f"{here}.grafeo", *words)
        assert answer.status == 0, answer.err
        return answer

    def read(path: Path, here: str = "here") -> str:
        return run("call", "hostile/attempt_it", "way=read", f"target={path}", here=here).out

    def waiting(here: str = "here") -> dict[str, str]:
        return {row[0]: row[3] for row in run("changes", "--waiting", here=here).rows}

    ingest = ("ingest", "--source", "s", "--isolate", "--", sys.executable, HOSTILE)
    run(*ingest)
    assert read(wanted).startswith("refused")
    assert read(other).startswith("refused")
    grant, refusal = f"hostile reads {wanted}", f"hostile reads {other}"
    assert waiting() == {grant: "", refusal: ""}
    settings = Settings(data_dir=str(tmp_path / "here"))
    with served(tmp_path / "here.grafeo", auth=True, folder=tmp_path, settings=settings) as service:
        [_, row] = assert_good(service.admin().get("/v1/waiting"))["waiting"]
        assert row["id"] == grant
        for everything in (False, True):
            client = service.caller("read", "write", everything=everything)
            assert assert_good(client.get("/v1/waiting"))["waiting"] == []
            assert str(wanted) not in client.post("/v1/approvals", json={"names": ["hostile reads /x"]}).text
        approved = {"hashes": {grant: row["content_hash"]}}
        assert assert_good(service.admin().post("/v1/approvals", json=approved))["wishes"] == [grant]
        assert str(wanted) not in service.caller("read", everything=True).get("/v1/changes").text
    run("reject", refusal, "--reason", "none of its business")
    run(*ingest)
    assert read(wanted).startswith("granted text")
    assert read(other).startswith("refused")
    assert waiting() == {refusal: "none of its business"}
    assert read(wanted).startswith("granted text"), "the ingest took nothing away"
    shown = run("show", "hostile").out
    assert f"{wanted}\tit asked for it, and an operator approved" in shown
    (tmp_path / "export.json").write_text(run("export").out)
    run("ingest", "--kind", "export", tmp_path / "export.json", here="there")
    run(*ingest, here="there")
    assert read(wanted, here="there").startswith("refused")
    assert waiting("there") == {grant: "", refusal: "none of its business"}
    run("approve", f"hostile reads {tmp_path}", here="there")  # a folder stands for what was asked for in it
    assert read(wanted, here="there").startswith("granted text")
    assert waiting("there") == {}
    needy = tmp_path / "needy" / "needy.py"
    needy.parent.mkdir()
    needy.write_text(f"open({str(other)!r}).close()\n{Path(HOSTILE).read_text()}")
    ingest = ("ingest", "--source", "t", "--isolate", "--", sys.executable, str(needy))
    assert run_program(capsys, "--registry", tmp_path / "there.grafeo", *ingest).status == 1
    [wish] = [each for each in waiting("there") if each.endswith(f" reads {other}")]
    with LocalRegistry.open(tmp_path / "there.grafeo") as registry:
        some = registry.perform(ListWaiting(), Principal(groups=("g",), operates=True))
        assert wish not in {each.id for each in some}, "whose it is nobody knows"
        with pytest.raises(TextDiffers):
            registry.perform(Approve(hashes={wish: "another"}))
    run("approve", wish, here="there")  # of a server that did not start, and so has no agent
    run(*ingest, here="there")
    assert read(wanted, here="there").startswith("granted text")


def test_limits_hold_in_a_box(tmp_path: Path) -> None:
    code = "import subprocess, time\nfor _ in range(9): subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
    launch = StdioLaunch(command=sys.executable, args=("-c", f"{code}time.sleep(60)"), isolate=True)
    with pytest.raises(UpstreamUnreachable, match="processes, 5 are allowed"):
        listing_of(launch, Settings(data_dir=str(tmp_path), server_max_processes=5))


def test_a_box_costs_a_start_little(tmp_path: Path) -> None:
    async def start(isolate: bool) -> float:
        launch = StdioLaunch(command=sys.executable, args=("-I", "-S", str(PROGRAMS / "handshake.py")), isolate=isolate)
        began = time.perf_counter()
        async with connect(launch, Settings(data_dir=str(tmp_path)), follow=False):
            return time.perf_counter() - began

    anyio.run(start, True)
    pairs = [(anyio.run(start, False), anyio.run(start, True)) for _ in range(9)]
    plain, boxed = map(min, zip(*pairs, strict=True))
    assert boxed - plain < max(0.03, plain)  # on a busy machine everything takes longer


def test_the_entry_decides_before_the_setting(tmp_path: Path) -> None:
    launch = StdioLaunch(command=sys.executable)
    everything, nothing = Settings(data_dir=str(tmp_path), isolate=True), Settings(data_dir=str(tmp_path))
    assert box_of(launch, os.environ, everything) is not None
    assert box_of(launch, os.environ, nothing) is None
    assert box_of(replace(launch, isolate=False), os.environ, everything) is None
    assert box_of(replace(launch, isolate=True), os.environ, nothing) is not None


def test_an_entry_its_file_and_a_command_say_it(tmp_path: Path) -> None:
    """The registry holds it, and a server whose grants changed has to be ingested again."""
    plain, granted = {"command": sys.executable, "args": [str(PROGRAMS / "handshake.py")]}, {"reads": ["/srv/a"]}
    path = tmp_path / "mcp.json"
    settings = Settings(data_dir=str(tmp_path / "data"), embedder="none")

    def isolated(document: dict[str, object]) -> dict[str, object]:
        path.write_text(json.dumps(document))
        intake = Intake(where=str(path))
        launches = {server.key: server.launch for server in mcp_config.servers(document, str(path), intake)}
        return {key: launch.isolate for key, launch in launches.items() if isinstance(launch, StdioLaunch)}

    entries = {"plain": plain, "own": plain | {"isolate": granted}, "out": plain | {"isolate": False}}
    assert isolated({"mcpServers": entries}) == {"plain": None, "own": {"reads": ("/srv/a",)}, "out": False}
    assert isolated({"mcpServers": entries, "isolate": True})["plain"] is True
    assert isolated({"mcpServers": {"odd": plain | {"isolate": {"read": ["/"]}}, "plain": plain}}) == {"plain": None}
    opened = open_command(["npx", "x"], Opening(settings=settings, isolate=True))
    [entry] = opened.place(opened.name, opened.how).manifest.entries
    assert json.loads(entry.agent.transport)["isolate"] is True
    before, after = (read_server(plain | {"isolate": each}) for each in (granted, {"reads": ["/srv/b"]}))
    assert json.loads(held_transport(before.transport))["isolate"] == granted
    launch = launch_of(before, Scope(surroundings=Surroundings()))
    assert before.launch_text(launch, {}, "") != after.launch_text(launch, {}, "")


def test_what_is_named_by_arguments_opens_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file opens itself, a program its package, a database its folder; a launcher reaches its registry."""
    home = tmp_path / "home"
    package = home / "work" / "server"
    for folder in (package / "dist", home / ".ssh", home / "data"):
        folder.mkdir(parents=True)
    for file in (package / "package.json", package / "dist" / "index.js", home / ".ssh" / "config"):
        file.touch()
    monkeypatch.setenv("HOME", str(home))

    def profile(command: str, *args: str, **env: str) -> set[tuple[str, str]]:
        launch = StdioLaunch(command=command, args=args, env=env, isolate=True)
        box = box_of(launch, {"PATH": "/usr/bin:/bin"}, Settings(data_dir=str(tmp_path)))
        assert box
        return {(grant.access, grant.what) for grant in box.grants}

    assert profile("sh", str(package / "dist" / "index.js")) == {("reads", str(package))}
    assert profile("sh", f"--db={home}/data/new.db") == {("writes", f"{home}/data")}
    assert profile("sh", KEY=f"{home}/.ssh/config") == {("writes", f"{home}/.ssh/config")}
    assert profile("sh", f"{home}/new.txt", "notes", "-v") == set()
    assert profile("env", "npx", "x", URL="postgres://u:p@db.example/x") == {
        ("reaches", "db.example:5432"),
        ("reaches", "registry.npmjs.org:443"),
    }
