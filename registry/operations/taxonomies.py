"""Taxonomies: read a tree, list them, and choose the current one."""

from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import MaxLen

from waygraph.registry.model.changes import Written
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.shapes import Shape, TransportFilter
from waygraph.registry.operations import answer_shapes
from waygraph.registry.operations.request import Graph, ListRequest, Name, Request, reads, writes
from waygraph.registry.operators.rights import refuse_limited
from waygraph.registry.taxonomy import taxonomies
from waygraph.registry.taxonomy.browse import no_taxonomy, seen_taxonomy
from waygraph.registry.taxonomy.tree import Drift, Taxonomy


@dataclass(frozen=True, kw_only=True)
class UseTaxonomy(Request[Written]):
    """Make a taxonomy the current one: what is browsed, walked and searched `within`.

    It needs a caller who sees everything.
    """

    operation = writes(
        "use_taxonomy", "PUT", "/v1/taxonomy", Written, body="TaxonomyRequest", audit=("set", "taxonomy {name}")
    )

    name: Name
    """Of the taxonomy that becomes the current one."""

    def answer(self, graph: Graph, principal: Principal | None) -> Written:
        refuse_limited(principal, "the current taxonomy is chosen")
        return graph.change_existing(lambda session: taxonomies.use_taxonomy(session, self.name))


@dataclass(frozen=True, kw_only=True)
class GetTaxonomy(Request[Taxonomy]):
    """A whole taxonomy, with all that it holds; what the caller may not see is left out."""

    operation = reads("taxonomy_tree", "/v1/taxonomy/tree", answer_shapes.TaxonomyTree)

    name: Annotated[str, MaxLen(40)] = ""
    """Of a taxonomy; empty: the current one."""

    def write(self, answer: Taxonomy, transport: TransportFilter = None) -> Shape:
        return answer.as_json()

    def read(self, document: Any) -> Taxonomy:
        return Taxonomy.of_json(document)

    def answer(self, graph: Graph, principal: Principal | None) -> Taxonomy:
        name = self.name or None
        if (taxonomy := graph.look(lambda index: seen_taxonomy(index, name, principal))) is None:
            raise no_taxonomy(name)
        return taxonomy


@dataclass(frozen=True, kw_only=True)
class ListTaxonomies(ListRequest[Drift]):
    """All taxonomies, and how far each has drifted from its build. It needs a caller who sees everything."""

    operation = reads("taxonomies", "/v1/taxonomies", answer_shapes.Taxonomies, whole="the list of taxonomies")
    listing, noun = "taxonomies", Drift

    def answer(self, graph: Graph, principal: Principal | None) -> list[Drift]:
        from waygraph.registry.taxonomy.structure import read_drift

        return graph.read(read_drift)
