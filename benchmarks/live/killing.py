"""`waygraph watch` of servers that it started, killed: which of their processes are left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.live.scene import Scene, until
from benchmarks.processes import waygraph_command
from benchmarks.record import PROJECT, Measure, Target
from benchmarks.service.servers import tree

NONE = Target(bound="at_most", value=0.0)
AFTER_S = 2.0


def measured(made: Scene, *, servers: int) -> tuple[list[Measure], dict[str, Any]]:
    config = made.folder / "stdio.json"
    program = ["-m", "benchmarks.live.stdio_server"]
    named = {
        f"stdio-{number}": {
            "command": sys.executable,
            "args": [*program, f"stdio-{number}"],
            "cwd": str(PROJECT),
        }
        for number in range(servers)
    }
    config.write_text(json.dumps({"mcpServers": named}), encoding="utf-8")
    place = made.folder / "stdio.grafeo"
    command = waygraph_command("--registry", str(place), "--embedder", "none", "watch", str(config), "--json")
    said = made.folder / "stdio.log"
    with said.open("wb") as log:
        process = subprocess.Popen(command, cwd=PROJECT, env=dict(made.world.environ), stdout=log, stderr=log)
    until(lambda: _online(said) >= servers, f"{servers} servers online: {said.read_text(encoding='utf-8')[-500:]}", 120)
    started = [pid for pid in tree(process.pid) if pid != process.pid]
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(AFTER_S)
    left = [pid for pid in started if _lives(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    name = f"processes left {AFTER_S:g} s after kill -9 of a watch of {servers} stdio servers"
    return [Measure(name=name, value=len(left), target=NONE)], {"processes_before": len(started)}


def _online(said: Path) -> int:
    lines = [line for line in said.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    return len({event["server"] for line in lines if (event := json.loads(line)).get("event") == "listed"})


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
