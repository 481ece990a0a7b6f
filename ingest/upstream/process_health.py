"""How a server's process fares: whether one that fetches what it starts is still at work, and why one failed.

The first start of a command that fetches takes longer than any later one. It is told from a start that hangs by its
signs of life: what its processes compute, read and write, and what they say on standard error. The protocol is silent
until the server itself runs.

Of what a failing process wrote the last line that says why is told, whichever language it is written in: by how such
a line begins, else by its words. Stack frames, help texts and what came of the end itself stand around it.
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


_LAST_LINES, _MOST_LINE_CHARS = 400, 1_000
_MOST_FOLLOWING = 2
"""Lines of an exception's message after the first, in Python."""
_AROUND = re.compile(
    r"""(?xi) ^\s*(?: at\s | File\ " | \^+ | [~^]+\s*$ | \.\.\.\ \d+\ | goroutine\ \d | \d+:\s | \|\s*$ | -{1,2}[a-z?] )
    | ^\s{8} | ^\s*---\s | ^(?: Node\.js\ v\d | exit\ status | note:\s | npm\ (?:warn|notice)\b | stack\ backtrace: )
    | ^(?: \[notice\] | usage\b | (?:try|run|see)\b.*-help ) | complete\ log\ of
    | ^npm\ err\S*\ (?:code|syscall|errno|path|dest)\b
    | BrokenPipe | EPIPE | KeyboardInterrupt | CancelledError | SIGTERM"""
)
"""Stack frames, help, and what comes of the end of a pipe or of a signal: no line of these says why."""
_REASON = re.compile(
    r"""(?x) ^\s{0,3}(?:\|\s*)?(?: (?:[\w$]+[.:/])*\w*(?:Error|Exception|Failure|Throwable)\b
    | (?:[\w./@-]+:\s)?(?i:(?:fatal|internal)\s)?(?i:error|fatal|panic)(?:\[\w+\])?\s*: | thread\ '.*panicked
    | Unhandled\ exception | [×✗✘✖]\s )
    | \b(?:ERROR|FATAL|CRITICAL|SEVERE)\b | \blevel=(?:error|fatal) | "level":\s*"?(?:error|fatal|50|60)\b"""
)
_CAUSE = re.compile(r"^\s*(?:(?:Caused by|\[cause\]):|--->|╰─▶|├─▶)\s*(?:0:\s*)?(.*)")
_HINT = re.compile(
    r"(?i)error|exception|required|missing|not found|no such|cannot|can't|could not|failed|fatal|denied|invalid|panic"
)


def failure_line(output: str) -> str:
    """The last line that says why, by how programs begin such a line; else the last that sounds like it; else the last.

    Empty if nothing was written.
    """
    own, is_python = output.partition("Exception ignored")[0] or output, "Traceback (most recent call last)" in output
    cut = (ESCAPES.sub("", line[:_MOST_LINE_CHARS]).rstrip() for line in own.splitlines()[-_LAST_LINES:])
    lines = [line for line in cut if line.strip()]
    told = [line.strip(" |") for line in lines if not (_AROUND.search(line) or _CAUSE.match(line))]
    places = (at for each in (_REASON, _HINT) for at in reversed(range(len(told))) if each.search(told[at]))
    at = next(places, len(told) - 1)
    if at < 0:
        return (lines or [""])[-1].strip()
    while at and told[at].split()[:3] == told[at - 1].split()[:3]:
        at -= 1
    following = _MOST_FOLLOWING if is_python else told[at].endswith(":")
    causes = [match[1] for each in lines if (match := _CAUSE.match(each)) and match[1]]
    return "; caused by: ".join([" ".join(told[at : at + 1 + following]), *causes[-1:]])
