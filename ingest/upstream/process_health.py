"""How a server's process fares: whether one that fetches what it starts is still at work, and why one failed.

The first start of a command that fetches takes longer than any later one. It is told from a start that hangs by its
signs of life: what its processes compute, read and write, and what they say on standard error. The protocol is silent
until the server itself runs.

Of what a failing process wrote the last lines are reported: one of them says why it failed.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.manifest.redaction import ESCAPES

MOST_TIMES = 10
"""So many times `upstream_connect_timeout_s` a start may take while it shows signs of life."""
LOOK_S = 1.0
"""Between two looks for a sign of life."""
COMES_WITH = {
    "bunx": "Bun",
    "deno": "Deno",
    "dnx": ".NET",
    "docker": "Docker",
    "node": "Node.js",
    "npx": "Node.js",
    "uv": "uv",
    "uvx": "uv",
}
"""What to install for the commands that most servers are started by."""
_FETCHING: dict[str, frozenset[str]] = {
    **dict.fromkeys(("bunx", "deno", "dnx", "jbang", "npx", "pnpx", "uvx"), frozenset[str]()),
    **dict.fromkeys(("docker", "nerdctl", "podman", "container"), frozenset({"run"})),
    **dict.fromkeys(("cargo", "go", "nix", "pipx"), frozenset({"run"})),
    "bun": frozenset({"x"}),
    "npm": frozenset({"exec", "x"}),
    "pnpm": frozenset({"dlx"}),
    "uv": frozenset({"run", "tool", "x"}),
    "yarn": frozenset({"dlx"}),
}
"""Programs, each with the subcommands of which one must be given; empty: whatever is given."""
_FIRST_WORDS = 8
"""Of a command, where a shell or `env` stands before the program itself."""
_PULL = re.compile(r"(?i)unable to find image|trying to pull|pulling from")
_PULL_END = re.compile(r"(?i)status: downloaded|writing manifest")
_LEAST_TICKS, _LEAST_BYTES = 2, 1024
"""Less than that between two looks does a program that only waits."""


def launcher_of(launch: StdioLaunch) -> str:
    """The name of the program that may have to fetch the server; empty: there is none."""
    words = [word for text in (launch.command, *launch.args[:_FIRST_WORDS]) for word in text.split()]
    for at, word in enumerate(words[:_FIRST_WORDS]):
        name = PurePath(word.replace("\\", "/")).name.lower().removesuffix(".exe").removesuffix(".cmd")
        if name in _FETCHING:
            return name if not _FETCHING[name] or not _FETCHING[name].isdisjoint(words[at + 1 :]) else ""
    return ""


def is_pulling(errors: str) -> bool:
    """Whether a daemon fetches an image for the process, which itself only waits."""
    starts = [match.end() for match in _PULL.finditer(errors)]
    return bool(starts) and not _PULL_END.search(errors, starts[-1])


@dataclass(frozen=True, slots=True)
class Activity:
    """What the processes of one session did by some moment. `is_known`: whether this system says so."""

    is_known: bool
    processes: frozenset[int] = frozenset()
    ticks: int = 0
    bytes: int = 0

    def is_sign_of_life(self, before: "Activity") -> bool:
        """What cannot be known is taken for one."""
        return (
            not self.is_known
            or self.processes != before.processes
            or self.ticks >= before.ticks + _LEAST_TICKS
            or self.bytes >= before.bytes + _LEAST_BYTES
        )


def activity_of(session: int, folder: Path = Path("/proc")) -> Activity:
    """As Linux tells it."""
    if not (folder / "self" / "stat").exists():
        return Activity(is_known=False)
    ticks = {each: _ticks_of(each, session) for each in folder.iterdir() if each.name.isdigit()}
    own = {each: count for each, count in ticks.items() if count is not None}
    return Activity(
        is_known=True,
        processes=frozenset(int(each.name) for each in own),
        ticks=sum(own.values()),
        bytes=sum(map(_bytes_of, own)),
    )


def _ticks_of(folder: Path, session: int) -> int | None:
    """How much of the processor it has had; None: it is gone, or of another session."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12]) if int(fields[3]) == session else None
    except (OSError, ValueError, IndexError):
        return None


def _bytes_of(folder: Path) -> int:
    """0 where the system does not let us see them, as of another user's process."""
    try:
        counts = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
        return int(counts["rchar"]) + int(counts["wchar"])
    except (OSError, ValueError, KeyError):
        return 0


_MOST_LINES = 6
"""Of a failing process's error output, from its end."""
_FRAME = re.compile(r"[\s|+]*(?:at\s|File \"|Traceback \(|\d+:\s|--?\w)|\s{4}(?!\s*\|)|\t|\W*$")
"""How a stack frame or an option of a help text begins, or a line of marks: of these there may be any number."""


def last_lines(output: str) -> str:
    """The last lines that are neither stack frames nor options of a help text, each once, as one line.

    If all lines are such, the last of these.
    """
    lines = [line for line in ESCAPES.sub("", output).splitlines() if line.strip()]
    telling = [line for line in lines if not _FRAME.match(line)] or lines
    return " ".join(list(dict.fromkeys(reversed(telling)))[_MOST_LINES - 1 :: -1])
