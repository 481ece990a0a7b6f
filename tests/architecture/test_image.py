"""The image: its own lines, rehearsed without Docker, make a service that answers; and what those lines say."""

import json
import os
import subprocess
import sys

import pytest

from scripts.image import Image, Instruction, NotRehearsed, is_sent, read, stages
from tests.architecture.tree import PARTS, ROOT, files

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8")
USER = "10001:10001"


@pytest.fixture(scope="module")
def image() -> Image:
    return Image(ROOT, read(DOCKERFILE))


@pytest.mark.timeout(900)
def test_the_rehearsed_image_serves() -> None:
    """Refused without keys; then healthy, as a user who is not root, with the right route; SIGTERM ends it with 0."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "image.py"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["best"], found["status"]) == ("bureau-fx", 0)
    assert found["user"] == (10001 if os.getuid() == 0 else os.getuid())


def test_it_is_built_in_one_stage_and_kept_in_another(image: Image) -> None:
    """The last stage runs nothing, and takes from the first only the environment and an empty folder for data."""
    first, last = stages(image.instructions)
    assert first[0].text == "python:3.12-slim AS build"
    assert last[0].text == "python:3.12-slim"
    assert [each.words for each in last if each.name == "COPY"] == [["/opt/waygraph"] * 2, ["/data"] * 2]
    assert not [each for each in last if each.name == "RUN"]


def test_it_is_not_root_and_owns_its_data(image: Image) -> None:
    """A user by number, to whom the volume's folder belongs; settings and caches lie in that volume."""
    assert image.only("USER").text == USER
    owned = [each for each in image.instructions if each.option("chown")]
    assert [(each.words, each.option("chown")) for each in owned] == [(["/data", "/data"], USER)]
    assert image.only("VOLUME").words == ["/data"]
    told = dict(each.text.split("=", 1) for each in image.instructions if each.name == "ENV")
    assert told == {
        "PATH": "/opt/waygraph/bin:$PATH",
        "WAYGRAPH_DATA_DIR": "/data",
        "WAYGRAPH_CACHE_DIR": "/data/cache",
    }


def test_signals_reach_the_service(image: Image) -> None:
    """No shell stands between: both are in the exec form."""
    assert image.only("ENTRYPOINT").words == ["waygraph"]
    assert image.only("CMD").words == ["serve", "--host", "0.0.0.0", "--port", image.only("EXPOSE").text]  # noqa: S104
    assert image.only("STOPSIGNAL").text == "SIGTERM"


def test_no_line_is_repeated_where_the_last_counts(image: Image) -> None:
    once = ("USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD")
    assert sorted(each.name for each in image.instructions if each.name in once) == sorted(once)


def test_the_builder_sees_what_the_wheel_is_built_of_and_nothing_else() -> None:
    """Every file of the four parts, and the three that the build reads; no history, no data, no settings."""
    assert all(is_sent(str(path.relative_to(ROOT)), IGNORED) for path in files())
    assert all(is_sent(name, IGNORED) for name in ("pyproject.toml", "README.md", "LICENSE"))
    for name in (
        ".git/config",
        ".env",
        "tests/conftest.py",
        "evals/a2x.json",
        "registry/__pycache__/x.pyc",
        "x.grafeo",
    ):
        assert not is_sent(name, IGNORED), name


def test_every_part_is_copied(image: Image) -> None:
    """A part that pyproject.toml names and the Dockerfile does not would be missing from the wheel."""
    sent = [each.words for each in image.instructions if each.name == "COPY" and not each.option("from")]
    assert {word for words in sent for word in words[:-1]} == {*PARTS, "pyproject.toml", "README.md", "LICENSE"}


@pytest.mark.parametrize("line", ["ADD https://example.org/x /x", 'SHELL ["/bin/bash"]', "run ls"])
def test_a_line_that_cannot_be_rehearsed_is_refused(line: str) -> None:
    """Else the rehearsal would show less than it seems to."""
    with pytest.raises(NotRehearsed, match="is not known here"):
        read(f"FROM python:3.12-slim\n{line}\n")


def test_lines_are_read_as_docker_reads_them() -> None:
    """Continued lines are one, comments are none, options are no words; the last line that fits a path decides."""
    (run,) = read("RUN a \\\n  && b\n# RUN c\n")
    assert run.text.split() == ["a", "&&", "b"]
    copy = Instruction("COPY", "--from=build --chown=1:2 /a /b")
    assert (copy.words, copy.option("from"), copy.option("chown")) == (["/a", "/b"], "build", "1:2")
    assert is_sent("a/b", "*\n!a\n")
    assert not is_sent("a/c/x", "*\n!a\n**/c\n")
    assert not is_sent("b/a", "*\n!a\n")
