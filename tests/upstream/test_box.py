"""What a stranger's server can do in its box: read its own, and nothing else."""

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
from tests.upstream.launches import PROGRAMS
from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.upstream.box import box_of, sandlock_library
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamRefused
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
            asked = [{"way": way, "target": target, "by_grandchild": by_grandchild} for way, target in attempts]
            return [(await server.text("attempt_it", **each)).startswith("refused") for each in asked]

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
