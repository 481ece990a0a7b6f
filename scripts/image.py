"""Rehearses the Dockerfile on a machine without Docker: its own lines, in an empty folder, then the service in it.

A stage's paths lie below one folder, and its Python stands for the base image. RUN lines are run as they are, COPY
copies, ENV is all that a process of the image sees. The service is then used as `docker run` would: refused without
keys, given one, filled, started as the image's user, asked for its health and for a route, stopped by SIGTERM.

What this cannot show: the base image itself, the layers' sizes, and that Docker reads the file as this does.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NAMES = (
    *("FROM", "COPY", "WORKDIR", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"),
    *("HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"),
)
BASE = "python:3.12-slim"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
READY_S, STOPPED_S = 60.0, 30.0
REQUEST, RIGHT = "convert dollars to euro", "bureau-fx"


class NotRehearsed(Exception):
    """A line that this script does not know, or a step that failed."""


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Of the exec form its parts, of the other form its words. Options apart."""
        if self.text.startswith("["):
            parts: list[str] = json.loads(self.text)
            return parts
        return [word for word in self.text.split() if not word.startswith("--")]

    def option(self, name: str) -> str:
        found = re.search(rf"--{name}=(\S+)", self.text)
        return found[1] if found else ""


def read(dockerfile: str) -> list[Instruction]:
    """Raises NotRehearsed for an instruction that is not known here."""
    lines = (line for line in dockerfile.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    made = []
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        name, _, text = line.partition(" ")
        if name not in NAMES:
            raise NotRehearsed(f"{name} is not known here; known: {', '.join(NAMES)}")
        made.append(Instruction(name, text.strip()))
    return made


def stages(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Each from its FROM on."""
    found: list[list[Instruction]] = []
    for each in instructions:
        if each.name == "FROM":
            found.append([])
        found[-1].append(each)
    return found


def is_sent(path: str, dockerignore: str) -> bool:
    """Whether .dockerignore lets the builder see a file of this relative path: its last fitting line counts."""
    sent = True
    for line in dockerignore.splitlines():
        pattern = line.strip().removeprefix("!")
        if pattern and not pattern.startswith("#") and _fits(path, pattern):
            sent = line.startswith("!")
    return sent


def _fits(path: str, pattern: str) -> bool:
    parts = path.split("/")
    if pattern.startswith("**/"):
        return any(fnmatch(part, pattern.removeprefix("**/")) for part in parts)
    depth = len(pattern.split("/"))
    return fnmatch("/".join(parts[:depth]), pattern)


@dataclass(slots=True)
class Image:
    """What the stages leave. `place` is where the stage at work has its files: always the same path."""

    place: Path
    instructions: Sequence[Instruction]
    environ: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: int = 0
    finished: dict[str, Path] = field(default_factory=dict)

    @property
    def folders(self) -> list[str]:
        """The folders of the image that its lines speak of."""
        named = (
            word for each in self.instructions if each.name in ("COPY", "WORKDIR", "VOLUME") for word in each.words
        )
        return sorted({word.rstrip("/") for word in named if word.startswith("/")}, key=len, reverse=True)

    def here(self, text: str) -> str:
        """The same, with the image's folders where they lie on this machine."""
        for name in self.folders:
            text = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", str(self.place / name[1:]), text)
        return text

    def only(self, name: str) -> Instruction:
        """The last of this name, which is the one that counts."""
        return [each for each in self.instructions if each.name == name][-1]


def build(image: Image) -> None:
    """Raises NotRehearsed if a RUN line fails."""
    steps = {"FROM": _from, "WORKDIR": _workdir, "COPY": _copy, "RUN": _run, "ENV": _env, "USER": _user}
    for stage in stages(image.instructions):
        for each in stage:
            if step := steps.get(each.name):
                print(f"{each.name} {each.text}", file=sys.stderr)
                step(image, each)
        base, *named = stage[0].text.split(" AS ")
        if base != BASE:
            raise NotRehearsed(f"FROM {base}: only {BASE} is known here")
        if named:
            image.finished[named[0]] = image.place.rename(image.place.with_name(f"stage-{named[0]}"))


def _from(image: Image, _: Instruction) -> None:
    image.environ, image.folder = lay_python(image.place / "usr/local"), "/"


def lay_python(place: Path) -> dict[str, str]:
    """What finds the Python that stands for the base image's: this machine's, copied if not everyone can reach it."""
    base, environ = Path(sys.base_prefix), {"PATH": f"{place}/bin:{SYSTEM_PATH}"}
    (place / "bin").mkdir(parents=True)
    if _is_open_to_all(base):
        (place / "bin/python").symlink_to(getattr(sys, "_base_executable", sys.executable))
        return environ
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(base / "bin" / version, place / "bin/python")
    left_out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "idlelib", "config-*")
    shutil.copytree(base / "lib" / version, place / "lib" / version, ignore=left_out)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy(library, place / "lib")
    return {**environ, "LD_LIBRARY_PATH": f"{place}/lib"}


def _is_open_to_all(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _workdir(image: Image, each: Instruction) -> None:
    image.folder = each.text
    Path(image.here(each.text)).mkdir(parents=True, exist_ok=True)


def _copy(image: Image, each: Instruction) -> None:
    *sources, to = each.words
    target, stage = Path(image.here(to)), each.option("from")
    for source in sources:
        if stage:
            _copy_any(image.finished[stage] / source[1:], target)
        else:
            _copy_sent(source, target)
    if (owner := each.option("chown")) and os.getuid() == 0:
        os.chown(target, *map(int, owner.split(":")))


def _copy_any(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, symlinks=True)


def _copy_sent(name: str, target: Path) -> None:
    """From the checkout, what .dockerignore lets through. A folder's content goes into the target."""
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    source = ROOT / name
    files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]
    for path in files:
        if is_sent(str(path.relative_to(ROOT)), ignore):
            to = target / (path.relative_to(source) if source.is_dir() else path.name)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)


def _run(image: Image, each: Instruction) -> None:
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name == "HOME"}
    command, folder = image.here(each.text), image.here(image.folder)
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=pip | image.environ, check=False)
    if done.returncode:
        raise NotRehearsed(f"RUN {each.text} ended with {done.returncode}")


def _env(image: Image, each: Instruction) -> None:
    name, _, value = each.text.partition("=")
    for known, known_value in image.environ.items():
        value = value.replace(f"${known}", known_value)
    image.environ[name] = image.here(value)


def _user(image: Image, each: Instruction) -> None:
    image.user = int(each.text.split(":")[0])


@dataclass(frozen=True, slots=True)
class Container:
    """The image in use: `docker run`, with the port of the image at another one of this machine."""

    image: Image
    port: int

    def command(self, *arguments: str) -> list[str]:
        return [*self.image.only("ENTRYPOINT").words, *(arguments or self._mapped(self.image.only("CMD").words))]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """To its end."""
        command = self.command(*arguments)
        return subprocess.run(command, **self._as_user(), capture_output=True, text=True, check=False, timeout=120)

    def succeed(self, *arguments: str) -> str:
        done = self.run(*arguments)
        if done.returncode:
            raise NotRehearsed(f"{arguments} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    @contextmanager
    def started(self) -> "Iterator[subprocess.Popen[bytes]]":
        """The service. Whatever happens, it is gone afterwards."""
        process = subprocess.Popen(self.command(), **self._as_user())
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def is_healthy(self) -> bool:
        """What HEALTHCHECK says."""
        parts = json.loads(self.image.only("HEALTHCHECK").text.partition("CMD ")[2])
        return subprocess.run(self._mapped(parts), **self._as_user(), capture_output=True, check=False).returncode == 0

    def _mapped(self, words: Sequence[str]) -> list[str]:
        exposed = self.image.only("EXPOSE").text
        return [re.sub(rf"\b{exposed}\b", str(self.port), word) for word in words]

    def _as_user(self) -> dict[str, Any]:
        """As `docker run` starts it. Only root can become the image's user; anyone else is not root as it is."""
        image = self.image
        executable_path: Mapping[str, str] = image.environ
        someone = {"user": image.user, "group": image.user, "extra_groups": ()} if os.getuid() == 0 else {}
        return {"cwd": image.place, "env": {"HOME": "/", **executable_path}, **someone}


def use(container: Container) -> dict[str, Any]:
    """What the service did. Raises NotRehearsed where it did something else than it should."""
    refused = container.run()
    if not refused.returncode or "keys create" not in refused.stderr:
        raise NotRehearsed(f"without keys it should refuse to start: {refused}")
    options = ("--scope", "route", "--scope", "read", "--everything", "--json")
    key = json.loads(container.succeed("keys", "create", "rehearsal", *options))["key"]
    container.succeed("ingest", str(_laid_open(container.image.place)))
    began = time.perf_counter()
    with container.started() as process:
        _wait_healthy(container, process)
        ready_s = time.perf_counter() - began
        best = _routed(container.port, key)
        user = Path(f"/proc/{process.pid}").stat().st_uid
        process.send_signal(getattr(signal, container.image.only("STOPSIGNAL").text))
        status = process.wait(STOPPED_S)
    return {"user": user, "best": best, "status": status, "healthy_after_s": round(ready_s, 2)}


def _laid_open(place: Path) -> Path:
    """The example catalogue, where the image's user can read it: as `-v` would."""
    return shutil.copytree(ROOT / "examples" / "catalog", place / "catalog")


def _wait_healthy(container: Container, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.perf_counter() + READY_S
    while not container.is_healthy():
        if process.poll() is not None:
            raise NotRehearsed(f"it ended with {process.returncode} before it was healthy")
        if time.perf_counter() > deadline:
            raise NotRehearsed(f"it is not healthy after {READY_S:g} s")
        time.sleep(0.1)


def _routed(port: int, key: str) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    connection.request("POST", "/v1/route", json.dumps({"text": REQUEST}), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise NotRehearsed(f"POST /v1/route was answered with {answer.status}: {content!r}")
    best: str = json.loads(content)["matches"][0]["agent"]["id"]
    return best


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


def size_mib(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*")) / 2**20


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory(prefix="waygraph-image-") as folder:
        Path(folder).chmod(0o755)
        image = Image(Path(folder) / "stage", read((ROOT / "Dockerfile").read_text(encoding="utf-8")))
        build(image)
        size = size_mib(image.place / "opt")
        print(json.dumps(use(Container(image, free_port())) | {"installed_mib": round(size, 1)}))


if __name__ == "__main__":
    main()
