"""One gateway for all hosts, and one service over it."""

from collections.abc import Iterator

import pytest

from tests.clients.gateways import Gateway, Service, service, set_up
from tests.processes_left import end_all


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    made = set_up(tmp_path_factory.mktemp("home"))
    yield made
    end_all(made.mark)


@pytest.fixture(scope="session")
def services(gateway: Gateway) -> Iterator[Service]:
    with service(gateway) as running:
        yield running
