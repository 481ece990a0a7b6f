"""What waits to be written: gathered while a batch is being written, the newest word of each counting."""

from dataclasses import dataclass, field

import anyio

from waygraph.ingest.server_statuses import Member
from waygraph.ingest.sources.reading import Parts
from waygraph.ingest.upstream.launch import ServerEntry
from waygraph.ingest.upstream.listing import ServerListing


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server offers, and what its source says of it."""

    server: ServerEntry
    listing: ServerListing = field(repr=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sources that were read, what servers offer, and how they are."""

    said: dict[str, Parts] = field(default_factory=dict)
    offers: dict[Member, Offer] = field(default_factory=dict)
    statuses: dict[Member, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.said or self.offers or self.statuses)


class Inbox:
    """Used in one event loop."""

    def __init__(self) -> None:
        self._next = Batch()
        self._filled = anyio.Event()

    def say(self, source: str, said: Parts) -> None:
        self._next.said[source] = said
        self._filled.set()

    def offer(self, member: Member, offer: Offer) -> None:
        self._next.offers[member] = offer
        self._filled.set()

    def status(self, member: Member, status: str) -> None:
        self._next.statuses[member] = status
        self._filled.set()

    @property
    def is_empty(self) -> bool:
        return self._next.is_empty

    async def take(self) -> Batch:
        """All that waits, once there is something."""
        await self._filled.wait()
        batch, self._next, self._filled = self._next, Batch(), anyio.Event()
        return batch

    def put_back(self, batch: Batch) -> None:
        """What could not be written, unless something newer is known."""
        newer = self._next
        self._next = Batch(
            said=batch.said | newer.said,
            offers=batch.offers | newer.offers,
            statuses=batch.statuses | newer.statuses,
        )
        if not self._next.is_empty:
            self._filled.set()
