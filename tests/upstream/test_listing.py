"""What a server offers, over both transports and in both protocol eras."""

import pytest

from tests.upstream.launches import SETTINGS, handshake, listing_of, modern
from tests.upstream.programs.handshake import TOOLS
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamUnreachable


def test_a_listing_holds_what_the_server_said_of_itself() -> None:
    """Name, title, version, instructions, the agreed version, and the counts of what is no tool."""
    listing = listing_of(handshake())
    told = (listing.name, listing.title, listing.version, listing.instructions, listing.protocol)
    assert told == ("handshake", "Hand Shake", "7", "Shake hands first.", "2025-06-18")
    assert (listing.prompts, listing.resources, listing.resource_templates) == (1, 2, 0)
    assert (listing.lasts_s, listing.notifies) == (None, True)


@pytest.mark.parametrize("behaviour", [(), ("pages",)])
def test_a_bad_tool_costs_only_itself(behaviour: tuple[str, ...]) -> None:
    """All tools come as the wire had them, in the server's order, whatever the protocol's schema says of them."""
    assert list(listing_of(handshake(*behaviour)).tools) == TOOLS


def test_the_modern_era_over_stdio() -> None:
    listing = listing_of(modern())
    assert (listing.protocol, listing.notifies) == ("2026-07-28", True)
    assert [tool["name"] for tool in listing.tools] == ["alpha"]


def test_a_server_that_ends_at_the_probe_is_asked_as_of_old() -> None:
    """Some older servers end when the first message is not `initialize`; they are started once more."""
    assert listing_of(handshake("dislikes_the_probe")).name == "handshake"


async def test_a_closed_connection_says_so() -> None:
    async with connect(handshake(), SETTINGS) as connection:
        pass
    with pytest.raises(UpstreamUnreachable, match="closed"):
        await connection.listing()


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    """An error of whoever uses the connection is no group, and no error of the server."""
    with pytest.raises(KeyError, match="mine"):
        async with connect(handshake(), SETTINGS):
            raise KeyError("mine")


async def test_a_server_that_ends_is_told_with_its_last_words() -> None:
    """Amid a listing it is an error of the listing: half of one is none."""
    with pytest.raises(UpstreamUnreachable, match="exit status 4: Error: out of paper"):
        async with connect(handshake("ends"), SETTINGS) as connection:
            await connection.listing()
