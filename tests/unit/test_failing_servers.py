"""A server of a configuration that does not work is named wherever one looks, until it works or is named no more."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway_catalog import by_hand
from tests.live_http import free_port
from tests.mcp_stubs import stdio_server, until, watched, write_at_once, write_config
from tests.observed_service import samples
from tests.service import PROGRAM, Served, assert_good, served
from waygraph.registry.model.nouns import HIDDEN_REASON
from waygraph.registry.storage.local_registry import LocalRegistry

TOKEN = "tok-5f1c9a7e3b2d4c6f8a90"  # noqa: S105 - of no service
DIES = {
    "command": sys.executable,
    "args": ["-c", "import os, sys; sys.exit('Error: the ledger refuses ' + os.environ['LEDGER_TOKEN'])"],
    "env": {"LEDGER_TOKEN": TOKEN},
}
ABSENT = {"command": "/nowhere/such-program"}
FAILING = {"dies", "absent", "unset"}


class Place:
    """A registry that the installed command works on."""

    def __init__(self, folder: Path) -> None:
        self.file, self.config = folder / "r.grafeo", folder / "mcp.json"
        self._environ = {**os.environ, "WAYGRAPH_DATA_DIR": str(folder / "data"), "COLUMNS": "400"}

    def run(self, *words: str, status: int = 0) -> str:
        command = [*PROGRAM, "--registry", str(self.file), "--embedder", "none", *words]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, check=False)
        assert done.returncode == status, f"{words}\n{done.stdout}\n{done.stderr}"
        assert TOKEN not in done.stdout + done.stderr
        return done.stdout

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", status=status))

    def failures(self) -> dict[str, dict[str, str]]:
        """By key; `sources` and `status` tell the same."""
        found = [failure for source in self.json("sources")["sources"] for failure in source["failures"]]
        assert found == self.json("status")["failures"]
        return {failure["key"]: failure for failure in found}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write_servers(place: Place, **more: Any) -> None:
    write_config(place.config, {"good": stdio_server("good"), **more})


def test_a_failing_server_is_named_until_it_works(place: Place, tmp_path: Path) -> None:
    """By the command, by a service to whom it concerns, and to nobody else; a taxonomy is current."""
    unset = {"command": sys.executable, "env": {"KEY": "${WAYGRAPH_TEST_NOT_SET}"}}
    write_servers(place, dies=DIES, absent=ABSENT, unset=unset)
    place.run("ingest", str(place.config))
    first = place.failures()
    assert set(first) == FAILING
    assert "the ledger refuses" in first["dies"]["reason"]
    assert "WAYGRAPH_TEST_NOT_SET" in first["unset"]["reason"]
    with LocalRegistry.open(place.file, embedder="none") as registry:
        registry.build_taxonomy(by_hand({"some": ("good",)}))
        registry.operator.set("good", visible_to=["crew"])
    place.run("ingest", str(place.config))
    assert {key: each["since"] for key, each in place.failures().items()} == {
        key: each["since"] for key, each in first.items()
    }
    (finding,) = [each for each in place.json("doctor", status=1)["findings"] if not each["ok"]]
    for text in (place.run("sources"), place.run("status"), finding["detail"]):
        assert all(key in text and first[key]["since"] in text for key in FAILING)
        assert "/nowhere/such-program" in text
    with served(place.file, auth=True, folder=tmp_path) as service:
        told_by_service(service)
        write_servers(place, dies=stdio_server("mended"), unset=unset)
        place.run("ingest", str(place.config))
        assert set(place.failures()) == {"unset"}
        write_servers(place, dies=stdio_server("mended"))
        place.run("ingest", str(place.config))
        assert place.failures() == {}
        assert assert_good(service.admin().get("/v1/status"))["failures"] == []
        assert not failing_metrics(service.admin().get("/metrics").content)
    place.run("doctor", "--deep")


def told_by_service(service: Served) -> None:
    operator = service.admin()
    source = assert_good(operator.get("/v1/sources"))["sources"][0]
    status = operator.get("/v1/status")
    assert {each["key"] for each in source["failures"]} == FAILING
    assert assert_good(status)["failures"] == source["failures"]
    named = failing_metrics(operator.get("/metrics").content)
    assert all(any(f'server="{key}"' in each for each in named) for key in FAILING)
    assert any("such-program" in each for each in named)
    reader = service.caller("read", everything=True)
    reasons = {each["reason"] for each in assert_good(reader.get("/v1/status"))["failures"]}
    assert reasons == {HIDDEN_REASON}
    assert "such-program" not in reader.get("/metrics").text + reader.get("/v1/sources").text
    for groups in ((), ("crew",)):
        other = service.caller("read", groups=groups)
        text = other.get("/v1/sources").text + other.get("/v1/status").text
        assert not any(key in text for key in FAILING)
    etag = status.headers["etag"]
    assert operator.get("/v1/status", headers={"If-None-Match": etag}).status_code == 304


def failing_metrics(exposition: bytes) -> list[str]:
    return [name for name in samples(exposition) if name.startswith("waygraph_source_failing_since_seconds{")]


def gone(config: Path) -> None:
    config.unlink()


def broken(config: Path) -> None:
    write_at_once(config, "{ no json")


@pytest.mark.parametrize("spoil", [gone, broken])
def test_a_known_source_that_cannot_be_read_is_named(place: Place, spoil: Callable[[Path], None]) -> None:
    """One that the registry does not know may be a slip of the pen, and is only printed."""
    write_servers(place)
    place.run("ingest", str(place.config))
    spoil(place.config)
    place.run("ingest", str(place.config), status=1)
    place.run("ingest", str(place.config.with_name("mpc.json")), status=1)
    (failure,) = place.failures().values()
    assert (failure["source"], failure["key"]) == (str(place.config), "")
    place.run("sources", "remove", str(place.config))
    assert place.failures() == {}


def test_a_file_of_a_folder_that_cannot_be_read_is_named(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "fine.json").write_text(json.dumps({"waygraph": 1, "agents": [{"id": "fine", "name": "fine"}]}))
    (folder / "half.json").write_text('{"waygraph": 1, "agents": [')
    place.run("ingest", str(folder))
    assert set(place.failures()) == {str(folder / "half.json")}
    (folder / "half.json").unlink()
    place.run("ingest", str(folder))
    assert place.failures() == {}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(tmp_path / "w.grafeo", embedder="none") as opened:
        yield opened


def keys(registry: LocalRegistry) -> set[str]:
    return {each.key for each in registry.status().failures} if registry.store.exists else set()


def test_a_watch_names_what_fails_until_it_works_or_is_removed(registry: LocalRegistry, tmp_path: Path) -> None:
    """A server that never answered, and the file itself."""
    config = tmp_path / "mcp.json"
    away = f"http://127.0.0.1:{free_port()}/mcp"
    write_config(config, {"good": stdio_server("good"), "away": away, "absent": ABSENT})
    with watched(registry, config) as seen:
        until(lambda: keys(registry) == {"away", "absent"} and seen.agents == {"good"}, "both are named")
        write_config(config, {"good": stdio_server("good"), "away": away})
        until(lambda: keys(registry) == {"away"}, "the one that was taken out is gone")
        broken(config)
        until(lambda: keys(registry) == {"away", ""}, "the file is named")
        write_config(config, {"good": stdio_server("good"), "away": stdio_server("mended")})
        until(lambda: not keys(registry) and seen.agents == {"good", "away"}, "all works")
