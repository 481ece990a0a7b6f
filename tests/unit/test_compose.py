"""The Compose file: the service beside a Neo4j of one exact version, on loopback, with secrets from outside."""

import os
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.model.settings import PREFIX, Settings

PASSWORD = "an-unlikely-password"  # noqa: S105 - nothing is started with it


@pytest.fixture(scope="module")
def file(root: Path) -> Path:
    return root / "docker-compose.yml"


@pytest.fixture(scope="module")
def compose(file: Path) -> dict[str, Any]:
    """The file as written: variables stand as they are."""
    loaded: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="module")
def neo4j(compose: dict[str, Any]) -> dict[str, Any]:
    service: dict[str, Any] = compose["services"]["neo4j"]
    return service


@pytest.fixture(scope="module")
def waygraph(compose: dict[str, Any]) -> dict[str, Any]:
    service: dict[str, Any] = compose["services"]["waygraph"]
    return service


def compose_program() -> tuple[str, ...] | None:
    """`docker compose` or `docker-compose`, whichever is installed."""
    for name, *plugin in (("docker", "compose"), ("docker-compose",)):
        program = (shutil.which(name) or name, *plugin)
        if _runs(program):
            return program
    return None


def _runs(program: tuple[str, ...]) -> bool:
    try:
        return subprocess.run((*program, "version"), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def resolve(file: Path, *profiles: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`config`: Compose checks the file against its schema and fills in the variables; needs no engine."""
    program = compose_program()
    if program is None:
        pytest.skip("neither docker-compose nor docker's compose plugin is installed")
    command = (*program, "-f", str(file), *(f"--profile={profile}" for profile in profiles), "config")
    ours = ("COMPOSE_", "NEO4J_", "WAYGRAPH_")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(command, env={**bare, **environ}, capture_output=True, text=True, check=False)


def test_compose_takes_the_file(file: Path) -> None:
    """Its own check finds nothing, and the password arrives in the container's environment."""
    done = resolve(file, "service", "neo4j", NEO4J_PASSWORD=PASSWORD)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert services["neo4j"]["environment"]["NEO4J_AUTH"] == f"neo4j/{PASSWORD}"
    assert services["waygraph"]["environment"]["WAYGRAPH_NEO4J_PASSWORD"] == PASSWORD
    assert services["waygraph"]["environment"]["WAYGRAPH_REGISTRY"] == "neo4j://neo4j:7687"


@pytest.mark.parametrize(("profile", "service"), [("neo4j", "neo4j"), ("service", "waygraph")])
def test_each_profile_starts_one_of_them(profile: str, service: str, file: Path, compose: dict[str, Any]) -> None:
    assert [name for name, each in compose["services"].items() if each["profiles"] == [profile]] == [service]
    done = resolve(file, profile, NEO4J_PASSWORD=PASSWORD, WAYGRAPH_REGISTRY="neo4j+s://db.example.com")
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)["services"][service]["environment"]
    assert found.get("WAYGRAPH_REGISTRY", "neo4j+s://db.example.com") == "neo4j+s://db.example.com"


def test_the_service_is_on_the_database(compose: dict[str, Any], waygraph: dict[str, Any]) -> None:
    """Unless another is named. It finds the other container by its name, and is started again until that answers."""
    match = re.fullmatch(r"\$\{WAYGRAPH_REGISTRY:-(.+)\}", waygraph["environment"]["WAYGRAPH_REGISTRY"])
    assert match
    assert ServerLocation.parse(match[1], "neo4j").address.split("://")[1].split(":")[0] in compose["services"]
    assert waygraph["restart"] == "unless-stopped"


def test_the_services_settings_are_known_and_its_secrets_come_from_outside(waygraph: dict[str, Any]) -> None:
    """Every WAYGRAPH_ variable is a setting; one that holds a secret has no value in the file, and must be given."""
    environment = waygraph["environment"]
    assert {name.removeprefix(PREFIX).lower() for name in environment} - {"registry"} <= {
        each.name for each in fields(Settings)
    }
    assert re.fullmatch(r"\$\{NEO4J_PASSWORD:\?[^}]+\}", environment["WAYGRAPH_NEO4J_PASSWORD"])
    secret = [name for name in environment if re.search("PASSWORD|TOKEN|SECRET|KEY$", name)]
    assert secret == ["WAYGRAPH_NEO4J_PASSWORD"]


def test_the_service_may_do_little(waygraph: dict[str, Any]) -> None:
    """It writes into its volume and a /tmp in memory, has no capability of root, and can get none."""
    assert waygraph["read_only"] is True
    assert waygraph["tmpfs"] == ["/tmp"]
    assert waygraph["cap_drop"] == ["ALL"]
    assert waygraph["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in waygraph
    assert "user" not in waygraph, "the image's own user"


def test_the_service_is_the_image_of_this_checkout(root: Path, waygraph: dict[str, Any]) -> None:
    """Built from the Dockerfile, whose health check it keeps, on the port and volume that it has."""
    dockerfile = (root / waygraph["build"] / "Dockerfile").read_text(encoding="utf-8")
    assert "\nHEALTHCHECK " in dockerfile
    assert "healthcheck" not in waygraph
    assert f"\nEXPOSE {waygraph['ports'][0].rpartition(':')[2]}\n" in dockerfile
    assert f"\nVOLUME {waygraph['volumes'][0].rpartition(':')[2]}\n" in dockerfile
