"""How programs that other people wrote are installed for the tests: once, in the cache, or not at all with a reason."""

from pathlib import Path

import pytest

from tests import environments, host_programs, live_servers
from tests.environments import NotInstalled
from tests.host_programs import host_program
from tests.live_servers import real_server


def test_without_npm_they_are_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line says what is missing; with WAYGRAPH_REQUIRE_LIVE_SERVERS=1 it fails the test."""
    monkeypatch.setattr(live_servers, "installed", lambda *_: NotInstalled("no npm"))
    monkeypatch.setattr(host_programs, "installed", lambda *_: NotInstalled("no npm"))
    monkeypatch.setitem(environments.ENVIRON, environments.REQUIRED, "0")
    with pytest.raises(pytest.skip.Exception, match="no live servers to test with: no npm"):
        real_server("memory", tmp_path)
    with pytest.raises(pytest.skip.Exception, match="no inspector to test with: no npm"):
        host_program("inspector")
    monkeypatch.setitem(environments.ENVIRON, environments.REQUIRED, "1")
    with pytest.raises(pytest.fail.Exception, match="no npm"):
        real_server("memory", tmp_path)
    with pytest.raises(pytest.fail.Exception, match="no npm"):
        host_program("inspector")
