"""What all tests share: the folders, and an environment that says nothing of whoever runs them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fake_openai import FakeOpenAI, fake_openai
from tests.processes_left import end_all, new_mark

pytest_plugins = ["tests.neo4j_fixtures", "tests.tiers"]

ROOT = Path(__file__).resolve().parent.parent

# Timings decide no test: neither how long an example takes, nor how long it takes to generate one. Examples share the
# fixtures of their function: such tests change nothing, or work under names of their own.
CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("ci", deadline=None, suppress_health_check=CHECKS, max_examples=50)
settings.register_profile("nightly", deadline=None, suppress_health_check=CHECKS, max_examples=500)
settings.load_profile("ci")

# What is started in the background of a script ignores Ctrl-C, and so would every program that a test starts and stops.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What tests that are coroutines run on."""
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> Any:
    """Of a host with the SDK's client: with a server that can, `auto` is the modern one."""
    return request.param


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def catalog(root: Path) -> Path:
    """The folder with the example catalogue: 36 agents, 186 tools."""
    return root / "examples" / "catalog"


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.migrations import richly

    with richly(tmp_path_factory.mktemp("rich")) as made:
        yield made


@pytest.fixture(scope="module")
def source(rich: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a registry, only read by all tests."""
    rich.fill(path := tmp_path_factory.mktemp("source") / "source.grafeo")
    return path


@pytest.fixture(scope="session", autouse=True)
def _own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No setting of the caller's counts, and no test writes to the caller's registry."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("WAYGRAPH_", "OPENAI_"))]:
            patch.delenv(name)
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def mark() -> Iterator[str]:
    """Marks the processes of a test, and ends those that it should not have left."""
    made = new_mark()
    yield made
    end_all(made)


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        yield running
