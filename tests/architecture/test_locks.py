"""The locks in requirements/: whole, hashed, in agreement with each other and with pyproject.toml."""

import re
import tomllib
from functools import cache

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.architecture.tree import ROOT, project

ALL = ("code", "isolate", "keyring", "models", "neo4j", "scan", "serve")
"""What the extra `all` names."""
LOCKS = {
    "all": (*ALL, "build", "plots", "dev", "sentence-transformers", "testcontainers", "train"),
    "dev": (*ALL, "build", "plots", "dev"),
    "service": ("build", "neo4j", "serve"),
}
"""Lock → the extras and groups that it holds, beside the product's own dependencies."""
ENVIRONMENTS = [
    {"python_version": minor, "python_full_version": f"{minor}.0", "sys_platform": system}
    for minor in ("3.12", "3.13", "3.14")
    for system in ("linux", "darwin")
]
INSTALLERS = ("scripts/setup", "Dockerfile")


def required(name: str) -> list[Requirement]:
    """What pyproject.toml asks of this lock."""
    of = {**project()["project"]["optional-dependencies"], **project()["dependency-groups"]}
    entries = [*project()["project"]["dependencies"], *(entry for part in LOCKS[name] for entry in of[part])]
    return [Requirement(entry) for entry in entries if isinstance(entry, str)]


@cache
def entries(name: str) -> list[str]:
    """The lock's lines, each joined with those that continue it, without comments."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if not line.startswith("#")]


@cache
def pins(name: str) -> dict[str, list[tuple[Version, Marker | None]]]:
    """Package → its versions, each with the environments that it is for."""
    found: dict[str, list[tuple[Version, Marker | None]]] = {}
    for entry in entries(name):
        pin = Requirement(entry.partition(" --hash")[0])
        [exact] = pin.specifier
        assert exact.operator == "=="
        found.setdefault(canonicalize_name(pin.name), []).append((Version(exact.version), pin.marker))
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_is_a_version_with_hashes(name: str) -> None:
    """No options, so no address of an index, and no package without a hash."""
    assert [
        line for line in entries(name) if not re.fullmatch(r"[^-\s].*?==.*?( +--hash=sha256:[0-9a-f]{64})+", line)
    ] == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_what_is_asked_for(name: str) -> None:
    """Each requirement of pyproject.toml has a version that fits, on every Python and system that we support."""
    missing = [
        (str(requirement), environment)
        for requirement in required(name)
        for environment in ENVIRONMENTS
        if (requirement.marker is None or requirement.marker.evaluate(environment))
        and not any(
            requirement.specifier.contains(version) and (marker is None or marker.evaluate(environment))
            for version, marker in pins(name).get(canonicalize_name(requirement.name), ())
        )
    ]
    assert missing == [], "renew the locks: scripts/lock"


def test_all_is_of_the_extras_that_are_said() -> None:
    assert project()["project"]["optional-dependencies"]["all"] == [f"waygraph[{','.join(ALL)}]"]


def test_the_image_has_what_its_model_needs() -> None:
    model = tomllib.loads((ROOT / "packages" / "waygraph-minilm" / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {canonicalize_name(Requirement(each).name) for each in model["project"]["dependencies"]}
    assert needed
    assert needed <= pins("service").keys()


@pytest.mark.parametrize("name", ["dev", "service"])
def test_the_locks_agree(name: str) -> None:
    """What is in a smaller lock is in the whole one, in the same version."""
    whole = {package: {version for version, _ in pins("all")[package]} for package in pins("all")}
    assert {p: found for p in pins(name) if not (found := {v for v, _ in pins(name)[p]}) <= whole.get(p, set())} == {}


@pytest.mark.parametrize("name", INSTALLERS)
def test_installs_go_by_a_lock(name: str) -> None:
    """Whatever pip installs in set-up and in the image is locked with hashes, or is one named thing without its own."""
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if "pip install" in line]
    assert any("--require-hashes" in line for line in lines)
    assert [line for line in lines if "--require-hashes" not in line and "--no-deps" not in line] == []
