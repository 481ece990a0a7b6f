"""The program, run in this process, and what one run of it said."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from waygraph.api.cli.app import main

CHANGING = re.compile(
    r"20\d\d-\d\d-\d\d[T ][\d:.]+(\+00:00)?|\"(elapsed_ms|seconds)\": ?[\d.e-]+|[\d.]+ m?s\b|\"location\": ?\"[^\"]*\""
    r"|registry\t\S+"
)


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def steady(self) -> "Answer":
        """Without what differs from run to run, and where the registry is."""
        return replace(self, out=CHANGING.sub("…", self.out))

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def report(self) -> Any:
        """Of the one source that was ingested."""
        [source] = self.json["sources"]
        return source["report"]

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a plain table, its header left out."""
        return [line.split("\t") for line in self.out.splitlines()[1:]]


def run_program(capsys: pytest.CaptureFixture[str], *words: object) -> Answer:
    capsys.readouterr()
    status = main([*map(str, words)])
    said = capsys.readouterr()
    return Answer(status, said.out, said.err)
