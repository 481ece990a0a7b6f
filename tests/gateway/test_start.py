"""A service is ready before its gateway, which is opened beside what is asked."""

import subprocess
import sys
import threading
import time

import httpx2
import pytest

from tests.gateway.test_doors import ACCEPT, HELLO
from tests.service import assert_good, assert_problem, served, until
from waygraph.api.rest import mcp_mount
from waygraph.api.rest.follow import Follower
from waygraph.api.rest.mcp_mount import OfferedGateway
from waygraph.api.rest.service import Readiness

COMPOSED = """
import sys
from waygraph.api.rest.bootstrap import ServiceOptions, compose_application, open_service
from waygraph.registry.model.settings import Settings

service = open_service(ServiceOptions(location=":memory:", embedder="none"), Settings(), {})
compose_application(service, ServiceOptions(location=":memory:"), {}, sys.stderr)
service.registry.close()
print("mcp" in sys.modules)
"""


def test_a_service_is_composed_without_the_sdk() -> None:
    done = subprocess.run([sys.executable, "-c", COMPOSED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Until it is set no service is ready."""
    event, hindrance = threading.Event(), Readiness.hindrance
    monkeypatch.setattr(Readiness, "hindrance", lambda self: event.wait() and hindrance(self))
    return event


def test_who_asks_the_gateway_early_waits_alone(ready: threading.Event) -> None:
    told: list[httpx2.Response] = []
    with served() as service:
        early = service.client()
        asking = threading.Thread(target=lambda: told.append(early.post("/mcp", json=HELLO, headers=ACCEPT)))
        asking.start()
        try:
            for _ in range(5):
                assert_good(service.client().get("/healthz"))
            assert not told
        finally:
            ready.set()
            asking.join()
    assert told[0].status_code == 200


@pytest.mark.parametrize("fails", [False, True])
def test_sources_are_followed_once_the_gateway_is_settled(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both import the SDK, and no two threads may at once; one that fails keeps nothing from being followed."""
    began: list[str] = []
    make = OfferedGateway._make_gateway

    def made(self: OfferedGateway) -> object:
        time.sleep(0.2)  # so that whoever does not wait is first
        began.append("gateway")
        if fails:
            raise ModuleNotFoundError("mcp")
        return make(self)

    monkeypatch.setattr(OfferedGateway, "_make_gateway", made)
    monkeypatch.setattr(Follower, "start", lambda _: began.append("follower"))
    with served() as service:
        until(lambda: "follower" in began, "that it follows")
        assert_good(service.client().get("/healthz"))
    assert began == ["gateway", "follower"]
    assert "never retrieved" not in service.log


def test_a_gateway_that_could_not_be_opened_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    make, has_room = OfferedGateway._make_gateway, threading.Event()

    def made(self: OfferedGateway) -> object:
        if not has_room.is_set():
            raise OSError("too many open files")
        return make(self)

    monkeypatch.setattr(OfferedGateway, "_make_gateway", made)
    monkeypatch.setattr(mcp_mount, "OPEN_AGAIN_S", 0.1)
    with served() as service:
        assert_problem(service.client().post("/mcp", json=HELLO, headers=ACCEPT), 500, "internal-error")
        has_room.set()
        until(lambda: service.client().post("/mcp", json=HELLO, headers=ACCEPT).status_code == 200, "the gateway")


def test_a_gateway_that_cannot_be_opened_is_no_harm_to_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks it is told that something failed, and the log says what."""
    monkeypatch.setitem(sys.modules, "waygraph.api.mcp.http", None)  # as if a library of its were missing
    with served() as service:
        for _ in range(2):
            assert_problem(service.client().post("/mcp", json=HELLO, headers=ACCEPT), 500, "internal-error")
        assert_good(service.client().get("/healthz"))
        said = until(lambda: [line for line in service.log.splitlines() if "cannot be opened" in line], "its line")
    assert len(said) == 1
    assert "ModuleNotFoundError" in said[0]
