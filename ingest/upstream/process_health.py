"""How a server's process fares: whether one that fetches what it starts is still at work, and why one failed.

The first start of a command that fetches takes longer than any later one. It is told from a start that hangs by its
signs of life: what its processes compute, read and write, and what they say on standard error. The protocol is silent
until the server itself runs.

Of what a failing process wrote one line says why, whichever language it is written in. Programs say it at a line's
start (`Error: …`, `panic: …`, `TypeError: …`, `prog: error: …`) or with a level (`ERROR`). Stack frames, help texts and
what came of the end itself stand around it; its cause may stand below or above.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
_MOST_FOLLOWING = 3
"""Lines of a message that has several."""
_MARGIN = re.compile(r"^\s*\|\s?")
"""Before the lines of an exception within a group, in Python."""
_HEAD = re.compile(
    r"""(?x) ^\s{0,3} (?:
    (?:[\w$]+[.:/])* \w*(?:Error|Exception|Failure|Throwable)\b (?:\ \[\w+\])? (?: : | \s*$ )
    | (?:[\w./@-]+:\s)? (?:fatal\s|internal\s)? (?i:error|fatal|panic) (?:\[\w+\])? \s* :
    | (?:[\w./-]+:\s)? Error\ (?:response|while|in)\b
    | thread\ '.*'\ .*panicked\ at
    | Exception\ in\ thread\b | Unhandled\ exception\b | Uncaught\ | Fatal\b
    | [×✗✘✖]\s | \[? (?:ERROR|FATAL|CRITICAL|SEVERE)\b )"""
)
_LEVEL = re.compile(r'\b(?:ERROR|FATAL|CRITICAL|SEVERE)\b|\blevel=(?:error|fatal)|"level":\s*"?(?:error|fatal|50|60)\b')
_CAUSE = re.compile(r"^\s*(?:(?:Caused by|\[cause\]):|--->|╰─▶|├─▶)\s*(.*)")
_NPM = re.compile(r"(?i)^npm (?:error|err!) (?!code |syscall |errno |path |dest |type |cwd |\d+\s*$)(.+)")
_FRAME = re.compile(
    r"""(?xi) ^\s*(?: at\s | File\ " | \^+ | [~^]+\s*$ | \.\.\.\ \d+\ (?:more|common) | goroutine\ \d | \d+:\s )
    | ^(?: Node\.js\ v\d | exit\ status\ \d | note:\s | npm\ (?:warn|notice)\b | \[notice\] | stack\ backtrace: )
    | complete\ log\ of\ this\ run"""
)
_HELP = re.compile(
    r"(?i)^\s*(?:-{1,2}[a-z?]|usage\b|(?:options|flags|commands|examples?|arguments)\s*:)|^(?:try|run|see)\b.*-help"
)
_TELLING = re.compile(
    r"(?i)error|exception|required|missing|not found|no such|cannot|can't|could not|failed|fatal|denied|invalid|panic"
)
_AFTER_END = re.compile(r"BrokenPipe|EPIPE|KeyboardInterrupt|CancelledError|SIGTERM")
"""What comes of the end of a pipe or of a signal, and is no reason."""
_NEXT = re.compile(r"\s*\+-|Exception ignored|Traceback |\s*For further information")
"""What is no part of an exception's message any more."""
_DEEP = " " * 8


@dataclass(slots=True)
class _Report:
    """One error with what it came of."""

    head: str
    causes: list[str] = field(default_factory=list)

    def text(self) -> str:
        causes = [cause for cause in self.causes if cause and cause not in self.head]
        return f"{self.head}; caused by: {causes[-1]}" if causes else self.head


def failure_line(output: str) -> str:
    """The line that most likely says why, with its cause; empty if nothing was written."""
    lines = [
        _MARGIN.sub("", ESCAPES.sub("", line[:_MOST_LINE_CHARS])).rstrip()
        for line in output.splitlines()[-_LAST_LINES:]
    ]
    reports = list(_reports(lines))
    if relevant := [each for each in reports if not _AFTER_END.search(each.head)] or reports:
        return relevant[-1].text()
    if npm := [match[1].strip() for line in lines if (match := _NPM.match(line))]:
        return npm[0]
    rest = [line for line in lines if line.strip() and not _FRAME.search(line)]
    plain = [line for line in rest if not _HELP.search(line) and not line.startswith(_DEEP)]
    telling = [line for line in plain if _TELLING.search(line)]
    return (telling or plain or rest or [""])[-1].strip()


def _reports(lines: Sequence[str]) -> Iterator[_Report]:
    """In their order. What is raised in the course of another error has that one for its cause."""
    last: _Report | None = None
    at, is_chained, is_ignored = 0, False, False
    while at < len(lines):
        line = lines[at]
        if (end := _end_of_traceback(lines, at)) and not is_ignored:
            causes = [last.head] if last and is_chained else []
            last, is_chained = _Report(_message(lines, end), causes), False
            yield last
        elif (match := _CAUSE.match(line)) and last:
            last.causes.append(match[1] or _last_indented(lines, at + 1))
        elif _is_head(line):
            last = _Report(_head(lines, at))
            yield last
        is_ignored = line.startswith("Exception ignored") or (is_ignored and not end)
        is_chained = is_chained or line.startswith(("The above exception", "During handling of the above"))
        at = max(at, end) + 1


def _is_head(line: str) -> bool:
    return not _HELP.search(line) and not _NPM.match(line) and bool(_HEAD.match(line) or _LEVEL.search(line))


def _end_of_traceback(lines: Sequence[str], at: int) -> int:
    """Where the exception stands of the traceback of Python that begins there; 0: none does."""
    if "Traceback (most recent call last)" not in lines[at]:
        return 0
    ends = (
        number for number in range(at + 1, len(lines)) if lines[number] and not lines[number].startswith((" ", "+"))
    )
    return next(ends, 0)


def _message(lines: Sequence[str], at: int) -> str:
    """Of an exception: it may go on over the next lines."""
    following = []
    for line in lines[at + 1 : at + 1 + _MOST_FOLLOWING]:
        if not line.strip() or _FRAME.search(line) or _is_head(line) or _NEXT.match(line):
            break
        following.append(line.strip())
    return " ".join([lines[at].strip(), *following])


def _head(lines: Sequence[str], at: int) -> str:
    """With the next line where it only announces that one."""
    line = lines[at].strip()
    following = next((each.strip() for each in lines[at + 1 : at + 3] if each.strip()), "")
    return f"{line} {following}".strip() if line.endswith(":") else line


def _last_indented(lines: Sequence[str], at: int) -> str:
    """Of the list of causes that begins there, the first cause of all: it comes last."""
    cause = ""
    for line in lines[at:]:
        if not line.startswith(" "):
            break
        cause = re.sub(r"^\s*(?:\d+:\s)?", "", line)
    return cause
