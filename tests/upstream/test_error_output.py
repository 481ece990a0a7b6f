"""The last lines of a failing program's error output say why, in the shapes that languages and installers have."""

import pytest

from waygraph.ingest.manifest.redaction import Discretion
from waygraph.ingest.upstream.process_health import last_lines
from waygraph.ingest.upstream.stdio import LAST_CHARS

PYTHON = """\
Traceback (most recent call last):
  File "/srv/weir.py", line 9, in <module>
    main()
  File "/srv/weir.py", line 6, in main
    raise {name}({text!r})
{name}: {text}
"""
CHAIN = PYTHON.format(name="KeyError", text="sluice") + "\n{}\n\n" + PYTHON.format(name="RuntimeError", text="no plan")
HELP = """\
Usage:
  weir serve [flags]

Flags:
  -h, --help            help for serve
      --gate string     number of the gate; an error is reported if it is missing
      --on-error mode   what is done when it failed (required)
"""
NODE = """\
/srv/weir/index.js:12
    throw new TypeError("the error of errors was not found");
    ^

TypeError: gate must be a number
    at open (/srv/weir/index.js:12:11)
    at Object.<anonymous> (/srv/weir/index.js:20:1)

Node.js v22.1.0
"""
MODULE = """\
node:internal/modules/esm/resolve:900
  throw new ERR_MODULE_NOT_FOUND(packageName, base, null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'sluice' imported from /srv/weir.mjs
    at packageResolve (node:internal/modules/esm/resolve:900:9) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v22.1.0
"""
NODE_CAUSE = """\
Error: the plan cannot be read
    at file:///srv/weir.mjs:3:9 {
  [cause]: Error: getaddrinfo ENOTFOUND plans.example
      at GetAddrInfoReqWrap.onlookup (node:dns:110:26) {
    code: 'ENOTFOUND'
  }
}
"""
RUST = """\

thread 'main' (4711) panicked at src/main.rs:7:33:
no gate was given
stack backtrace:
   0: std::panicking::begin_panic_handler
   1: weir::main
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
ANYHOW = """\
Error: the weir cannot be opened

Caused by:
    0: reading weir.toml
    1: No such file or directory (os error 2)

Stack backtrace:
   0: anyhow::error
"""
JAVA = """\
Exception in thread "main" java.lang.IllegalStateException: cannot start
\tat weir.Main.main(Main.java:8)
Caused by: java.io.IOException: disk is missing
\tat weir.Disk.open(Disk.java:3)
\t... 1 more
Caused by: java.nio.file.AccessDeniedException: /dev/weir
\tat weir.Disk.read(Disk.java:9)
\t... 2 more
"""
DOTNET = """\
Unhandled exception. System.ApplicationException: cannot start
 ---> System.IO.FileNotFoundException: weir.json is not there
   at Weir.Plan.Read() in /srv/Plan.cs:line 4
   --- End of inner exception stack trace ---
   at Weir.Program.Main() in /srv/Program.cs:line 9
"""
NPM = """\
npm error code ETARGET
npm error notarget No matching version found for weir@9.9.9.
npm error notarget In most cases you or one of your dependencies are requesting
npm error notarget a package version that doesn't exist.
npm error A complete log of this run can be found in: /root/.npm/_logs/x.log
"""
NPM_OFFLINE = """\
npm ERR! code ECONNREFUSED
npm ERR! syscall connect
npm ERR! errno ECONNREFUSED
npm ERR! FetchError: request to https://npm.example/weir failed, reason: connect ECONNREFUSED 10.0.0.9:443
npm ERR! If you are behind a proxy, please make sure that the 'proxy' config is set properly.
"""
NPM_AROUND = (
    NODE + "npm error Lifecycle script `start` failed with error:\nnpm error code 1\nnpm error path /srv/weir\n"
)
UV = """\
Resolved 3 packages in 12ms
error: Failed to fetch: `https://packages.example/simple/weir/`
  Caused by: Request failed after 3 retries
  Caused by: invalid peer certificate: UnknownIssuer
"""
UV_NONE = """\
  × No solution found when resolving tool dependencies:
  ╰─▶ Because weir was not found in the package registry and you require weir, your requirements are unsatisfiable.
"""
PIP = """\
WARNING: Retrying (Retry(total=0)) after connection broken by error
ERROR: Could not find a version that satisfies the requirement weir (from versions: none)
ERROR: No matching distribution found for weir

[notice] A new release of pip is available: 24.0 -> 25.0
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/srv/weir.py", line 5, in <module>
  |     anyio.run(main)
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/weir.py", line 2, in bad
    | ValueError: the key is short
    +------------------------------------
"""
PYDANTIC = """\
Traceback (most recent call last):
  File "/srv/weir.py", line 4, in <module>
    Settings()
pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
gate
  Field required [type=missing, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2/v/missing
"""
AFTERWARDS = (
    PYTHON.format(name="ValueError", text="bad gate")
    + "Exception ignored in: <function Loop.__del__>\n"
    + PYTHON.format(name="RuntimeError", text="loop is closed")
    + PYTHON.format(name="BrokenPipeError", text="[Errno 32] Broken pipe")
)

SHAPES = {
    "cobra": ('Error: required flag(s) "gate" not set\n' + HELP, 'Error: required flag(s) "gate" not set'),
    "cobra, of a command": (
        'Error: unknown command "x" for "weir"\nRun \'weir --help\' for usage.',
        'unknown command "x"',
    ),
    "go, log": (
        "2026/01/02 03:04:05 listen tcp :80: bind: permission denied\nexit status 1\n",
        "bind: permission denied",
    ),
    "go, panic": (
        "panic: no gate\n\ngoroutine 1 [running]:\nmain.main()\n\t/w.go:2 +0x9\nexit status 2\n",
        "panic: no gate",
    ),
    "node": (NODE, "TypeError: gate must be a number"),
    "node, module": (MODULE, "Cannot find package 'sluice' imported from"),
    "node, cause": (NODE_CAUSE, "the plan cannot be read [cause]: Error: getaddrinfo ENOTFOUND plans.example"),
    "node, colours": (f"\x1b[31mError: no gate\x1b[0m\n{HELP}", "Error: no gate"),
    "python": (PYTHON.format(name="ValueError", text="bad gate"), "ValueError: bad gate"),
    "python, a name of its own": (PYTHON.format(name="weir.NoGate", text="none"), "weir.NoGate: none"),
    "python, from": (
        CHAIN.format("The above exception was the direct cause of the following exception:"),
        "RuntimeError: no plan",
    ),
    "python, during": (
        CHAIN.format("During handling of the above exception, another exception occurred:"),
        "RuntimeError: no plan",
    ),
    "python, a group": (GROUP, "ValueError: the key is short"),
    "python, several lines": (PYDANTIC, "1 validation error for Settings gate Field required"),
    "python, its shutdown": (AFTERWARDS, "ValueError: bad gate"),
    "python, logging": ("INFO:weir:starting\nERROR:weir:no gate\nINFO:weir:bye\n", "ERROR:weir:no gate"),
    "argparse": (
        "usage: weir [-h] --gate G\nweir: error: the following arguments are required: --gate",
        "are required: --gate",
    ),
    "argparse, of a command": (
        "usage: weir open [-h]\nweir open: error: argument --gate: invalid",
        "argument --gate: invalid",
    ),
    "click": (
        "Usage: weir [OPTIONS]\nTry 'weir --help' for help.\n\nError: Missing option '--gate'.",
        "Missing option '--gate'.",
    ),
    "rust, panic": (RUST, "no gate was given"),
    "rust, anyhow": (ANYHOW, "the weir cannot be opened"),
    "java": (
        JAVA,
        "IllegalStateException: cannot start Caused by: java.io.IOException: disk is missing Caused by: java.nio",
    ),
    "java, launcher": ("Error: Unable to access jarfile weir.jar\n", "Unable to access jarfile weir.jar"),
    "dotnet": (DOTNET, "cannot start ---> System.IO.FileNotFoundException: weir.json is not there"),
    "npm": (NPM, "No matching version found for weir@9.9.9."),
    "npm, offline": (NPM_OFFLINE, "reason: connect ECONNREFUSED 10.0.0.9:443"),
    "npm, around a program": (NPM_AROUND, "TypeError: gate must be a number"),
    "uv": (UV, "weir/` Caused by: Request failed after 3 retries Caused by: invalid peer certificate: UnknownIssuer"),
    "uv, nothing found": (UV_NONE, "weir was not found in the package registry"),
    "pip": (PIP, "ERROR: No matching distribution found for weir"),
    "docker": (
        "docker: Error response from daemon: pull access denied for weir.\n\nRun 'docker run --help' for more",
        "Error response from daemon: pull access denied for weir.",
    ),
    "logs in JSON": (
        '{"level":30,"msg":"up"}\n{"level":60,"msg":"no gate"}\n{"level":30,"msg":"down"}\n',
        '"msg":"no gate"',
    ),
    "logs of words": ('level=INFO msg=up\nlevel=ERROR msg="no gate"\n', 'msg="no gate"'),
    "plain words": ("starting\nplease give the gate in GATE\n", "please give the gate in GATE"),
    "a telling word": ("no such gate: 9\nbye\n", "no such gate: 9"),
    "nothing": ("\n \n", ""),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_last_lines_say_why(shape: str) -> None:
    output, line = SHAPES[shape]
    found = told_of(output)
    assert line in found
    assert bool(found) == bool(line)
    assert "\n" not in found
    assert len(found) < 300
    assert "--on-error" not in found


def told_of(output: str) -> str:
    return Discretion().line(last_lines(output), LAST_CHARS)


def test_what_comes_before_the_last_lines_and_the_frames_between_them_are_left_out() -> None:
    frames = "\n".join(f"    at open (/srv/weir/index.js:{line}:11)" for line in range(200))
    steps = "\n".join(f"step {number}" for number in range(20))
    assert told_of(f"{steps}\nError: no gate\n{frames}\n") == "step 15 step 16 step 17 step 18 step 19 Error: no gate"
    assert told_of("Error: no gate\n" + "retrying\n" * 50) == "Error: no gate retrying"
    assert told_of(frames).endswith("at open (/srv/weir/index.js:199:11)")


def test_of_long_lines_the_beginning_and_the_end_are_told() -> None:
    told = told_of("Error: no gate " + "x" * 2_000 + "\nset GATE\n")
    assert told.startswith("Error: no gate xxx")
    assert told.endswith("xxx set GATE")
    assert len(told) <= LAST_CHARS


def test_a_long_line_without_end_is_read_in_little_time() -> None:
    """Of whatever characters: what a program writes is bounded."""
    for text in ("a.", "a", '"', "error ", "Error(", ": ", "\x1b[", "|", "    ", "+ |"):
        assert len(told_of(text * 30_000)) <= LAST_CHARS
        assert len(told_of(text * 30_000 + "!x")) <= LAST_CHARS
