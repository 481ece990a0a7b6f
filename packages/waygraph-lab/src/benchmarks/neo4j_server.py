"""A throw-away Neo4j, run here from Maven's jars, which can be killed and restarted."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final, Self

from platformdirs import user_cache_path

from benchmarks.processes import locked

ENVIRON: Final = dict(os.environ)
"""As the caller set it: tests/conftest.py takes WAYGRAPH_* away once tests run."""

POM = Path(__file__).parent / "neo4j_pom.xml"
USER = "neo4j"

START_S = 120.0
STOP_S = 30.0
LAST_LINES = 40
DOWNLOAD_S = 280.0
"""Less than the 300 s that pytest gives a test, so that Maven's own words are seen."""
PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections: nobody takes a killed server's port before it restarts."""


class NoServer(Exception):
    """No Neo4j can be had here; says why in one line."""


class StartFailed(Exception):
    """The server ended, or said nothing of being ready; holds its last lines."""


@dataclass(frozen=True)
class Release:
    """A Neo4j Community version and what its jars need of Java."""

    version: str
    main_class: str
    java: tuple[int, ...]
    """Major versions that it runs on."""
    flags: tuple[str, ...] = ()

    @property
    def image(self) -> str:
        return f"neo4j:{self.version}-community"


LTS = Release("5.26.0", "org.neo4j.server.CommunityEntryPoint", (17, 21))
CALENDAR = Release(
    "2026.08.1",
    "org.neo4j.server.Neo4jCommunity",
    (21, 25),
    ("--enable-native-access=ALL-UNNAMED", "--add-modules=jdk.incubator.vector"),
)

FLAGS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "-Dlog4j2.disable.jmx=true",
    "-XX:+PerfDisableSharedMem",  # nothing is left in the system's folder after a kill
)

QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Half the processor time to start; tests are too short to gain it back. One thread is enough to collect for them."""

SETTINGS = """\
server.default_listen_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:{port}
server.http.enabled=false
server.https.enabled=false
dbms.security.auth_enabled={auth}
server.memory.heap.max_size={heap}
server.memory.pagecache.size={page_cache}
dbms.usage_report.enabled=false
db.tx_log.preallocate=false
internal.dbms.bolt.netty_server_shutdown_quiet_period=0
"""
"""The last two: each of two databases would set aside 256 MB for its log, and a server that has closed its databases
would wait 10 s for connections before it ends."""


def available(release: Release) -> str | None:
    """Why the jars of `release` cannot be run here, in one line; None if they can, as far as can be told offline."""
    try:
        find_java(release)
    except NoServer as reason:
        return str(reason)
    if not _complete(_jar_folder(release)) and shutil.which("mvn") is None:
        return f"no Maven to fetch Neo4j {release.version} with: install mvn"
    return None


# Java


def find_java(release: Release) -> str:
    """The first `java` that `release` runs on, of JAVA_HOME, PATH and /usr/lib/jvm. Raises NoServer."""
    seen = {java: java_version(java) for java in _javas()}
    for java, version in seen.items():
        if version in release.java:
            return java
    wanted = " or ".join(map(str, release.java))
    found = ", ".join(f"{version} at {java}" for java, version in seen.items()) or "none"
    raise NoServer(f"Neo4j {release.version} needs Java {wanted}: set JAVA_HOME (seen: {found})")


@cache
def java_version(java: str) -> int | None:
    """17 for `openjdk version "17.0.15"`, 8 for `"1.8.0"`; None if `java` does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(version[1]) if version else None


def _javas() -> Iterator[str]:
    if home := ENVIRON.get("JAVA_HOME"):
        yield str(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        yield on_path
    yield from map(str, sorted(Path("/usr/lib/jvm").glob("*/bin/java")))


# Jars


def jars(release: Release) -> Path:
    """The folder with the server's jars, fetched by Maven the first time (about 130 MB). Raises NoServer."""
    folder = _jar_folder(release)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f"{release.version}.lock"):
        if not _complete(folder):
            _fetch(release, folder)
    return folder


def _jar_folder(release: Release) -> Path:
    given = ENVIRON.get("WAYGRAPH_TEST_CACHE")
    return (Path(given) if given else user_cache_path("waygraph")) / "neo4j" / release.version


def _complete(folder: Path) -> bool:
    return (folder / ".complete").exists()


def _fetch(release: Release, folder: Path) -> None:
    part = folder.with_name(f"{release.version}.part")
    for old in (part, folder):
        shutil.rmtree(old, ignore_errors=True)
    _copy_dependencies(release, part)
    (part / ".complete").touch()
    part.rename(folder)


def _copy_dependencies(release: Release, folder: Path) -> None:
    goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}")
    command = ("mvn", "-q", "-B", "-f", str(POM), *goal, f"-Dneo4j.version={release.version}")
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=True)
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stdout.splitlines() if "ERROR" in line), f"status {error.returncode}")
        raise NoServer(f"Maven did not fetch Neo4j {release.version}: {first}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoServer(f"Maven did not fetch Neo4j {release.version}: {error}") from error


# The server

TIED = 'exec 3<&0; { read _ <&3 || kill -9 $$; } & exec 3<&-; exec "$@" </dev/null'
"""Becomes the program it is given, beside a watcher that kills it when our end of the pipe on its standard input
closes: when this process ends, in whatever way. A line on the pipe lets the watcher go. (PR_SET_PDEATHSIG is for Linux
alone, and kills when the thread ends that started the program.)"""


def start_tied(command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """A program that ends with this process at the latest. Its pid is its own; end it with `end_tied`."""
    return subprocess.Popen(
        ("/bin/sh", "-c", TIED, command[0], *command),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C is for the tests, which then stop it
    )


def end_tied(process: subprocess.Popen[bytes], by: signal.Signals) -> None:
    """By the signal, or by SIGKILL if it has not ended STOP_S later."""
    process.send_signal(by)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate(b"\n")


class Neo4jServer:
    """A Neo4j of our own on a loopback port, its data under `folder`. It ends with this process at the latest."""

    def __init__(
        self,
        release: Release,
        folder: Path,
        *,
        password: str | None = None,
        heap: str = "512m",
        page_cache: str = "64m",
        measured: bool = False,
    ) -> None:
        """`password` of the user neo4j, at least 8 characters; without one, anybody may do anything. `heap` as -Xmx,
        `page_cache` as Neo4j's setting.

        `measured`: compiled as on a server that runs for days, which takes more time to start.
        """
        self.release = release
        self.folder = folder.resolve()
        self.password = password
        self.port = 0
        self._heap, self._page_cache = heap, page_cache
        self._compiler = () if measured else QUICK_COMPILER
        self._java = find_java(release)
        self._classpath = f"{jars(release)}/*"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def auth(self) -> tuple[str, str] | None:
        """For `neo4j.GraphDatabase.driver`."""
        return None if self.password is None else (USER, self.password)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """On a free port; returns once it answers. Raises StartFailed."""
        assert self._process is None, "already started"
        for name in ("conf", "data", "logs", "run", "import", "plugins"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for _ in range(3):
            self.port = _free_port()
            try:
                return self._launch()
            except _PortTaken:
                continue
        raise StartFailed(f"three ports were taken, the last {self.port}")

    def restart(self) -> None:
        """On the same data and port, whether it still runs or was killed."""
        self.stop()
        self._launch()

    def stop(self) -> None:
        """Shut down in order; nothing if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """With SIGKILL: what is committed stays, nothing else."""
        self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> None:
        if self._process is not None:
            end_tied(self._process, by)
            self._process = None

    def _launch(self) -> None:
        self._configure()
        before = len(self._log())
        with self._console.open("ab") as console:
            self._process = start_tied(self._command(), console)
        try:
            self._await_start(self._process, before)
        except BaseException:
            self.kill()
            raise

    def _await_start(self, process: subprocess.Popen[bytes], before: int) -> None:
        """`before`: how long the log was then, since earlier starts stand in it too."""
        deadline = time.monotonic() + START_S
        while "Started." not in (said := self._log()[before:]):
            if process.poll() is not None:
                raise self._failure("ended at its start", said)
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready within {START_S} s", said)
            time.sleep(0.1)

    def _log(self) -> str:
        log = self.folder / "logs" / "neo4j.log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    @property
    def _console(self) -> Path:
        """What the Java machine itself says, such as of a flag that it does not know."""
        return self.folder / "logs" / "console.log"

    def _failure(self, what: str, said: str) -> StartFailed:
        kind = _PortTaken if "Address already in use" in said else StartFailed
        lines = (self._console.read_text(encoding="utf-8", errors="replace") + said).splitlines()
        return kind("\n".join((f"Neo4j {self.release.version} {what}:", *lines[-LAST_LINES:])))

    def _configure(self) -> None:
        auth = str(self.password is not None).lower()
        text = SETTINGS.format(port=self.port, heap=self._heap, page_cache=self._page_cache, auth=auth)
        (self.folder / "conf" / "neo4j.conf").write_text(text, encoding="utf-8")
        if self.password is not None and not (self.folder / "data" / "databases").exists():
            self._set_initial_password(self.password)

    def _set_initial_password(self, password: str) -> None:
        """As `neo4j-admin` does; it counts only before the first start."""
        admin = (self._java, "-cp", self._classpath, "org.neo4j.cli.AdminTool")
        environ = {**os.environ, "NEO4J_HOME": str(self.folder), "NEO4J_CONF": str(self.folder / "conf")}
        command = (*admin, "dbms", "set-initial-password", password)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode != 0:
            raise StartFailed(f"Neo4j {self.release.version} did not take the password: {done.stderr}")

    def _command(self) -> tuple[str, ...]:
        home = self.folder
        return (
            *(self._java, f"-Xmx{self._heap}", "-cp", self._classpath, *FLAGS, *self._compiler, *self.release.flags),
            *(f"-Djava.io.tmpdir={home}/run", f"-Dapp.home={home}", f"-Dbasedir={home}"),
            *(self.release.main_class, f"--home-dir={home}", f"--config-dir={home}/conf"),
        )


class _PortTaken(StartFailed):
    pass


def start_server(
    release: Release,
    folder: Path,
    *,
    password: str | None = None,
    heap: str = "512m",
    page_cache: str = "64m",
    measured: bool = False,
) -> Neo4jServer:
    """A started server; leave its `with` block to stop it. Raises NoServer or StartFailed."""
    server = Neo4jServer(release, folder, password=password, heap=heap, page_cache=page_cache, measured=measured)
    server.start()
    return server


def _free_port() -> int:
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            # As the server itself does: connections of a server that was there before are no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
