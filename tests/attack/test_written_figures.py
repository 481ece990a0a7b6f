"""Nobody learns from the figures of a write what others wrote that they may not see."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fake_openai import KEY, FakeOpenAI
from tests.sync_graph import entry, manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import MassRemoval
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

pytestmark = pytest.mark.attack

CREW = Principal(id="crew", groups=("crew",))
HIDDEN = "the safe stands behind the second mirror"


@pytest.fixture
def registry(fake: FakeOpenAI, tmp_path: Path) -> Iterator[Registry]:
    environ = {"OPENAI_BASE_URL": fake.url, "OPENAI_API_KEY": KEY}
    settings = Settings(cache_dir=str(tmp_path))
    with Registry.open(":memory:", embedder="openai:any-model", settings=settings, environ=environ) as opened:
        sync(opened, manifest("secret", entry("vault", HIDDEN)))
        opened.operator.set("vault", hidden=True)
        yield opened


@pytest.mark.parametrize("principal", [CREW, None], ids=["of a group", "who sees everything"])
def test_the_texts_embedded_tell_a_group_nothing_of_equal_hidden_ones(
    registry: Registry, fake: FakeOpenAI, principal: Principal | None
) -> None:
    """Nor does the work: each text is embedded. Who sees everything pays for none twice."""
    told: list[tuple[int, int]] = []
    for source, text in (("guess", HIDDEN), ("other", "nobody has ever written this before")):
        asked = sum(map(len, fake.batches))
        report = sync(registry, manifest(source, entry(source, text)), principal=principal)
        told.append((report.texts_embedded, sum(map(len, fake.batches)) - asked))
    assert (told[0] == told[1]) == (principal is not None)
    assert told[1][0] == told[1][1] > 0


def test_a_text_that_was_embedded_for_a_group_is_kept(registry: Registry, fake: FakeOpenAI) -> None:
    sync(registry, manifest("crew", entry("crew", "sails by night")), principal=CREW)
    report = sync(registry, manifest("again", entry("crew2", "sails by night")))
    assert report.texts_embedded < sync(registry, manifest("new", entry("crew3", "rows at noon"))).texts_embedded


def test_a_removal_counts_what_its_sender_sees(registry: Registry) -> None:
    """Hidden agents of the source make a removal of all that is seen of it no smaller."""
    sync(registry, manifest("both", *(entry(name) for name in ("a", "b", "c", "d"))), principal=CREW)
    for name in ("ns-both.c", "ns-both.d"):
        registry.operator.set(name, hidden=True)
    gone = replace(manifest("both"), partial=True, gone=("a", "b"))
    with pytest.raises(MassRemoval) as raised:
        sync(registry, gone, principal=CREW)
    assert (raised.value.removed, raised.value.held) == (2, 2)


@pytest.mark.parametrize("is_hidden", [True, False])
def test_an_agent_that_was_removed_is_withheld_from_operators_alone(registry: Registry, is_hidden: bool) -> None:
    """A writer's agent of the same id is another one, and its sender learns nothing of the one that was removed."""
    sync(registry, manifest("s", entry("gone"), entry("stays")))
    registry.operator.set("gone", hidden=is_hidden, removed=True)
    mine = manifest("mine", entry("gone"), entry("own"))
    changes = sync(registry, mine, principal=CREW).changes
    assert (changes.withheld, len(changes.created_agents)) == ((), 2)
    assert sync(registry, replace(mine, source="ours")).changes.withheld == ("gone",)
