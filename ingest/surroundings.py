"""What a config refers to outside itself, handed in: nothing in `ingest` reads the process's environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment, the user's home and the working folder, both absolute.

    By default nothing is known, so that every reference is unset: so a service reads what others send it.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    home: str = ""
    cwd: str = ""

    @classmethod
    def here(cls, environ: Mapping[str, str]) -> Self:
        """This process's home and working folder, with the environment that is handed in."""
        return cls(environ=environ, home=str(Path.home()), cwd=str(Path.cwd()))
