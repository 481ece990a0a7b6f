"""Named groups of what a registry holds: toolsets and taxonomies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import MaxLen

from waygraph.registry.model.changes import Written
from waygraph.registry.model.nouns import Filters, Principal
from waygraph.registry.model.shapes import Shape, TransportFilter
from waygraph.registry.model.validation import MAX_NAME_CHARS, MAX_NAMES, checked_filters, checked_path
from waygraph.registry.operations.catalog import NO_FILTERS, filters_sent, with_members
from waygraph.registry.operations.request import Graph, Id, ListRequest, Name, Request, make_read, make_write
from waygraph.registry.operators import toolset as toolsets
from waygraph.registry.operators.rights import refuse_limited
from waygraph.registry.operators.toolset import MAX_DESCRIPTION_CHARS, Toolset, stated_toolset
from waygraph.registry.taxonomy import taxonomies
from waygraph.registry.taxonomy.browse import browse_index, no_taxonomy, seen_taxonomy
from waygraph.registry.taxonomy.tree import CategoryView, Drift, Taxonomy

_TOOLSET_EXAMPLE = {
    "name": "dinner", "description": "For who plans an evening.", "tools": ["trencher-tables/reserve"], "agents": [],
    "tags": [], "callers": ["concierge"], "includes": ["trencher-tables/reserve"], "members": ["trencher-tables"],
    "missing": [],
}  # fmt: skip
_WRITE_EXAMPLE = {"revision": 2, "texts_embedded": 0}


@dataclass(frozen=True, kw_only=True)
class ListToolsets(ListRequest[Toolset]):
    """The toolsets that the caller may use, by name, each with what the caller may see of it."""

    operation = make_read(
        "toolsets", "/v1/toolsets", "Toolsets", example={"answer": {"toolsets": [_TOOLSET_EXAMPLE], "revision": 1}}
    )
    listing, noun = "toolsets", Toolset

    def answer(self, graph: Graph, principal: Principal | None) -> list[Toolset]:
        return graph.look(lambda index: toolsets.seen_toolsets(index, principal))


@dataclass(frozen=True, kw_only=True)
class GetToolset(Request[Toolset]):
    """One toolset, if the caller may use it."""

    operation = make_read("toolset", "/v1/toolsets/{name}", Toolset, example={"answer": _TOOLSET_EXAMPLE})

    name: Id
    """A toolset's name."""

    def answer(self, graph: Graph, principal: Principal | None) -> Toolset:
        return graph.look(lambda index: toolsets.seen_toolset(index, self.name, principal))


@dataclass(frozen=True, kw_only=True)
class SetToolset(Request[Toolset]):
    """Make a toolset, or set it anew: an endpoint of MCP, `/{name}/mcp`, and a filter. What comes later and fits joins.

    It needs a caller who sees everything.
    """

    operation = make_write(
        "set_toolset", "PUT", "/v1/toolsets/{name}", Toolset, body="ToolsetRequest", audit=("set", "toolset {name}"),
        example={
            "request": {name: _TOOLSET_EXAMPLE[name] for name in ("description", "tools", "callers")},
            "answer": _TOOLSET_EXAMPLE,
        },
    )  # fmt: skip

    name: Id
    """A toolset's name."""
    description: Annotated[str, MaxLen(MAX_DESCRIPTION_CHARS)] = ""
    tools: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Tools by id, agent/tool."""
    agents: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Agents by id, with all their tools."""
    tags: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Agents with any of these tags."""
    callers: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Groups that may use it. Default: whoever may see anything in it."""

    def audit_details(self) -> Mapping[str, object]:
        return {name: value for name, value in self.sent_fields().items() if name != "name"}

    def answer(self, graph: Graph, principal: Principal | None) -> Toolset:
        refuse_limited(principal, "toolsets are made")
        new = stated_toolset(**vars(self))
        graph.change_existing(lambda session: toolsets.set_toolset(session, new))
        return graph.look(lambda index: toolsets.seen_toolset(index, new.name, None))


@dataclass(frozen=True, kw_only=True)
class RemoveToolset(Request[Written]):
    """Remove a toolset; its tools stay. It needs a caller who sees everything."""

    operation = make_write(
        "remove_toolset", "DELETE", "/v1/toolsets/{name}", Written, audit=("remove", "toolset {name}"),
        example={"answer": _WRITE_EXAMPLE},
    )  # fmt: skip

    name: Id
    """A toolset's name."""

    def answer(self, graph: Graph, principal: Principal | None) -> Written:
        refuse_limited(principal, "toolsets are removed")
        return graph.change_existing(lambda session: toolsets.remove_toolset(session, self.name))


@dataclass(frozen=True, kw_only=True)
class UseTaxonomy(Request[Written]):
    """Make a taxonomy the current one: what is browsed, walked and searched `within`.

    It needs a caller who sees everything.
    """

    operation = make_write(
        "use_taxonomy", "PUT", "/v1/taxonomy", Written, body="TaxonomyRequest", audit=("set", "taxonomy {name}"),
        example={"request": {"name": "main"}, "answer": _WRITE_EXAMPLE},
    )  # fmt: skip

    name: Name
    """Of the taxonomy that becomes the current one."""

    def answer(self, graph: Graph, principal: Principal | None) -> Written:
        refuse_limited(principal, "the current taxonomy is chosen")
        return graph.change_existing(lambda session: taxonomies.use_taxonomy(session, self.name))


@dataclass(frozen=True, kw_only=True)
class GetTaxonomy(Request[Taxonomy]):
    """A whole taxonomy, with all that it holds; what the caller may not see is left out."""

    operation = make_read("taxonomy_tree", "/v1/taxonomy/tree", "TaxonomyTree")

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

    operation = make_read("taxonomies", "/v1/taxonomies", "Taxonomies", whole="the list of taxonomies")
    listing, noun = "taxonomies", Drift

    def answer(self, graph: Graph, principal: Principal | None) -> list[Drift]:
        from waygraph.registry.taxonomy.taxonomies import read_drift

        return graph.read(read_drift)


@dataclass(frozen=True, kw_only=True)
class Browse(Request[CategoryView]):
    """A category of the current taxonomy, its children with counts and examples, and what stands in it."""

    operation = make_read("taxonomy", "/v1/taxonomy", CategoryView)

    filters: Filters = NO_FILTERS
    path: Annotated[str, MaxLen(MAX_NAME_CHARS)] = ""
    """A category, such as travel/flights; empty: the root."""

    def sent_fields(self) -> dict[str, Any]:
        return filters_sent(checked_filters(self.filters)) | {"path": checked_path(self.path)}

    def answer(self, graph: Graph, principal: Principal | None) -> CategoryView:
        category, given = checked_path(self.path), checked_filters(self.filters)
        return graph.look(lambda index: browse_index(index, category, with_members(index, given, principal), principal))
