"""What a stranger's server can do in its box: read its own, and nothing else."""

import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.upstream.calling import Asking
from tests.upstream.launches import PROGRAMS, listing_of
from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.records import Intake, StdioLaunch, held_transport
from waygraph.ingest.sources.formats import mcp_config
from waygraph.ingest.sources.formats.configured_server import launch_of, read_server
from waygraph.ingest.sources.opening import Opening, open_command
from waygraph.ingest.upstream.box import box_of, sandlock_library
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.settings import Settings


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
    data: Path, *args: str, isolate: bool | Mapping[str, tuple[str, ...]] = True
) -> AsyncIterator[Asking]:
    launch = StdioLaunch(command=sys.executable, args=(HOSTILE, *args), isolate=isolate, env={"OWN_KEY": "own"})
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


def test_a_refusal_is_told_with_what_would_grant_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("")

    async def fail(text: str) -> str:
        async with hostile(tmp_path / "data") as server:
            result = await server.raw("fail", text=text)
            return " ".join(part["text"] for part in result["content"])

    told = anyio.run(fail, "getaddrinfo ENOTFOUND api.example.com")
    assert '"isolate": {"reaches": ["api.example.com:443"]}' in told
    assert f'{{"reads": ["{tmp_path}/key"]}}' in anyio.run(fail, f"Permission denied: '{tmp_path}/key'")
    assert "isolate" not in anyio.run(fail, "no such issue")


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
    plain, boxed = (min(anyio.run(start, isolate) for _ in range(7)) for isolate in (False, True))
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
