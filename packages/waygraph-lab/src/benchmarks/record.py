"""What a benchmark leaves behind: measured values beside their targets, and what they were measured on."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from waygraph_lab.evaluation.record import source_commit

_CHECKOUT = Path(__file__).resolve().parents[4]
IS_CLONE = (_CHECKOUT / "packages" / "waygraph-lab" / "src" / "benchmarks").is_dir()
PROJECT = _CHECKOUT if IS_CLONE else Path.cwd()
"""The clone of the repository that this module lies in; of an installed wheel the current folder."""
NEEDS_CLONE = "it needs a clone of the repository"
"""Why a benchmark is skipped where only the wheel is installed."""
LIBRARIES = ("grafeo", "numpy", "onnx", "onnxruntime", "pystemmer", "tokenizers", "waygraph")

Bound = Literal["at_most", "at_least", "near"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`near` means within `tolerance` either way."""

    bound: Bound
    value: float
    tolerance: float = 0.0

    def is_met(self, measured: float) -> bool:
        match self.bound:
            case "at_most":
                return measured <= self.value
            case "at_least":
                return measured >= self.value
            case "near":
                return abs(measured - self.value) <= self.tolerance

    def text(self) -> str:
        sign = {"at_most": "≤", "at_least": "≥", "near": ""}[self.bound]
        spread = f" ± {self.tolerance:g}" if self.bound == "near" else ""
        return f"{sign} {self.value:g}{spread}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number. Without a target it is reported only."""

    name: str
    value: float
    unit: str = ""
    target: Target | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "target": self.target.text() if self.target else None,
            "met": self.target.is_met(self.value) if self.target else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a benchmark found. `details` is its own; `skipped` says why there is nothing, or not all."""

    name: str
    measures: Sequence[Measure] = ()
    embedder: str = ""
    notes: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    skipped: str = ""


def as_record(result: Result, command: str) -> dict[str, Any]:
    return {
        "name": result.name,
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": source_commit(),
        "machine": machine(),
        "versions": versions(),
        "embedder": result.embedder,
        "measures": [measure.as_json() for measure in result.measures],
        "notes": list(result.notes),
        "skipped": result.skipped,
        "details": dict(result.details),
    }


def write_record(record: Mapping[str, Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['name']}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, Any]:
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "model": _cpu_model(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_average_1_min": round(os.getloadavg()[0], 1),
    }


def versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
