"""A document by its address: one source, whatever its content turns out to be.

Of an address that gives no document the card is looked for, as an A2A agent has it. What was fetched is somebody
else's: no command in it is started, and no variable of ours is put into it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from waygraph.ingest.sources.a2a_card import card_urls
from waygraph.ingest.sources.fetching import Fetching, Unfetched, address_of, fetch
from waygraph.ingest.sources.kinds import UnknownShape
from waygraph.ingest.sources.parsing import SUFFIXES
from waygraph.ingest.sources.reading import Listing, Reading, read_listing
from waygraph.ingest.surroundings import Surroundings
from waygraph.registry.changes import Manifest
from waygraph.registry.errors import SourceError
from waygraph.registry.identity import agent_id

CARD_KIND = "a2a-card"
_REFUSING = frozenset({401, 403, 407, 429})
"""What says nothing of whether a document is there."""


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
        """Asks anew. Raises SourceError, also for an export of several sources; Unfetched if there is no document."""
        manifests = self.first(read_listing)
        if len(manifests) != 1:
            raise SourceError(self.name, f"is an export of {len(manifests)} sources: fetch it, and ingest the file")
        return manifests[0]

    def first[T](self, read: Callable[[Listing, Reading], T]) -> T:
        """What `read` makes of the document, or of the card where that is to be found instead; read without trust.

        Raises what the document itself met, if there is no card either.
        """
        missed: list[SourceError] = []
        for listing in self._listings():
            try:
                return read(listing, self.reading)
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
