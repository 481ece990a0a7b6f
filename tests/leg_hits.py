"""What a search found, as ids: to compare indexes that number their entities each in its own way."""

from typing import NamedTuple

from waygraph.registry.index.search_index import Hits, Leg


class LegLists(NamedTuple):
    """Three lists of one length, best first."""

    entity_ids: list[str]
    owner_ids: list[str]
    scores: list[float]


def legs_of(hits: Hits) -> dict[Leg, LegLists]:
    """Return the hits of each leg."""
    records = hits.records
    return {
        name: LegLists(records.ids(leg.rows), records.ids(records.owners(leg.rows)), leg.scores.tolist())
        for name, leg in hits.legs.items()
    }
