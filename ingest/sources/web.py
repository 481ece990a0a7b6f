"""A document by its address: one source, whatever its content turns out to be.

Of an address that gives no document the card is looked for, as an A2A agent has it. What was fetched is somebody
else's: no command in it is started, and no variable of ours is put into it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from waygraph.ingest.sources import export
from waygraph.ingest.sources.a2a_card import card_urls
from waygraph.ingest.sources.fetching import Fetching, Unfetched, address_of, fetch
from waygraph.ingest.sources.kinds import UnknownShape
from waygraph.ingest.sources.parsing import SUFFIXES
from waygraph.ingest.sources.reading import Listing, Parts, Reading, read_parts
from waygraph.ingest.surroundings import Surroundings
from waygraph.registry.changes import Manifest
from waygraph.registry.errors import SourceError
from waygraph.registry.identity import agent_id

CARD_KIND = "a2a-card"
_REFUSING = frozenset({401, 403, 407, 429})
"""What says nothing of whether a document is there."""


class OfOthers(SourceError):
    """A document that speaks in the names of sources that are none of its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDocument:
    """Implements Source. Made by `open_document`, which checks the address."""

    url: str
    name: str
    namespace: str
    how: Fetching
    reading: Reading

    def __repr__(self) -> str:
        return f"WebDocument({self.name!r})"

    def read(self) -> Manifest:
        """Asks anew. Raises SourceError; Unfetched if there is no document."""
        return self.parts().manifest

    def parts(self) -> Parts:
        """What the document says, or the card where that is to be found instead; read without trust.

        Raises what the document itself met, if there is no card either; OfOthers for an export, unless a person calls
        it one.
        """
        held = self._first()
        if len(held) != 1 or (held[0].manifest.source != self.name and self.reading.kind != export.KIND):
            raise OfOthers(self.name, f"is an export of {len(held)} sources: fetch it, and ingest the file")
        return held[0]

    def _first(self) -> list[Parts]:
        missed: list[SourceError] = []
        for listing in self._listings():
            try:
                return read_parts(listing, self.reading)
            except (Unfetched, UnknownShape) as error:
                missed.append(error)
                if isinstance(error, Unfetched) and error.status in (0, *_REFUSING):
                    break
        raise missed[0]

    def _listings(self) -> Iterator[Listing]:
        """Unread: of the address itself, then of each place for a card under it."""
        path = urlsplit(self.url).path
        places = () if path.lower().endswith(SUFFIXES) else card_urls(self.url)
        itself = () if places and self.reading.kind == CARD_KIND else (self.url,)
        for place in (*itself, *places):
            yield self._listing(place)

    def _listing(self, url: str) -> Listing:
        def content(most_bytes: int) -> bytes:
            return fetch(url, self.how).content[:most_bytes]

        # Without the query, so that the path's end can say what it is.
        return Listing(files=[(address_of(url).partition("?")[0], content)], source=self.name, namespace=self.namespace)


def open_document(url: str, how: Fetching, reading: Reading, *, source: str = "", namespace: str = "") -> WebDocument:
    """`source` empty: the address without its secrets. Raises SourceError for what is no address of the web."""
    name = source or address_of(url)
    space = namespace or agent_id(urlsplit(url).hostname or "source")
    untrusting = replace(reading, ask=None, surroundings=Surroundings())
    return WebDocument(url=url, name=name, namespace=space, how=how, reading=untrusting)
