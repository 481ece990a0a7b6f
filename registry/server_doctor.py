"""Whether a registry on a graph server is well."""

from waygraph.registry.doctor import Finding, attempt, embedder_finding, versions
from waygraph.registry.registry import Registry
from waygraph.registry.server import ServerStore


def examine_server(registry: Registry, store: ServerStore) -> list[Finding]:
    """The findings, in the order of the checks; never raises for what is wrong with the registry."""
    server = attempt("server", lambda: f"Neo4j {'.'.join(map(str, store.engine.version))}", "see docs/neo4j.md")
    if not server.ok:
        return [server, versions()]
    return [server, embedder_finding(registry), versions()]
