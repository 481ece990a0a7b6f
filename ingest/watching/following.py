"""Sources as they are followed: how one tells that a source may say something else, and when it is looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from waygraph.ingest.sources.opening import OpenedSource
from waygraph.ingest.sources.reading import Parts
from waygraph.ingest.sources.skill_folder import beside, is_skill
from waygraph.registry.errors import SourceError

FILE_LOOK_S = 1.0
"""From one look at the times of files to the next, which costs little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A source that is read again when it changed. Its methods may take their time: they are called in a thread."""

    source: OpenedSource
    poll_s: float
    """From one reading to the next of what does not tell by itself that it changed, such as an address."""

    @property
    def name(self) -> str:
        return self.source.name

    def stamp(self) -> object:
        """Another value when it may say something else; None: it has to be read to know. Raises SourceError."""
        if self.source.listing is None:
            return None
        places = [where for where, _ in self.source.listing().files]
        if any("://" in where for where in places):
            return None
        try:
            return tuple(stamp for where in places for stamp in _stamps(Path(where)))
        except OSError as exc:
            raise SourceError(self.name, f"cannot be read: {exc.strerror}") from exc

    def look_s(self, stamp: object) -> float:
        """How long till the next look at a source of this stamp."""
        return self.poll_s if stamp is None else FILE_LOOK_S

    def say(self) -> Parts:
        """What it says by itself; no server is asked. Raises SourceError if nothing at all can be read."""
        said = self.source.parts()
        self.source.vouch(said)
        return said


def _stamps(document: Path) -> Iterator[object]:
    """Of a file, and of all that is read with it. Raises OSError if the file itself is not there."""
    yield _stamp(document)
    for script in beside(document) if is_skill(document) else ():
        try:
            yield _stamp(script)
        except OSError:  # such as a link to nowhere, which the skill is told without
            yield str(script)


def _stamp(file: Path) -> tuple[str, int, int, int]:
    status = file.stat()
    return str(file), status.st_mtime_ns, status.st_size, status.st_ino
