"""The deep checks of a registry on a graph server: the graph against itself, what is indexed against the graph."""

from collections.abc import Iterator

from waygraph.cypher import load
from waygraph.registry.doctor.findings import DAMAGE, Finding, attempt, restore_advice
from waygraph.registry.doctor.graph_soundness import REINDEX, Graph, graph_findings, unless
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.index.neo4j_renewal import Comparison
from waygraph.registry.settings import Settings
from waygraph.registry.storage.server import ServerStore


def examine_server_deep(store: ServerStore, settings: Settings) -> list[Finding]:
    """Over one revision, whole; writers are not held up."""
    restore = restore_advice(store.place)
    findings: list[Finding] = []

    def look(session: GraphSession) -> list[Finding]:
        findings[:] = [*graph_findings(Graph(session, settings), restore), *_index_findings(session)]
        return findings

    try:
        return store.read(look)
    except DAMAGE as error:  # a statement that fails takes all that follow in its transaction along
        return [*findings, Finding(check="graph", ok=False, detail=str(error), advice=restore)]


def _index_findings(session: GraphSession) -> Iterator[Finding]:
    try:
        compared = Comparison.read(session)
    except DAMAGE as error:
        yield Finding(check="index", ok=False, detail=str(error), advice=REINDEX)
        return
    for check, faults, sound in (
        ("index of agents", compared.agent_faults, f"{len(compared.agents)}, as written anew"),
        ("index of tools", compared.tool_faults, f"{len(compared.tools)}, as written anew"),
        ("index of words", compared.term_faults, f"{len(compared.terms[0][1])}, as counted anew"),
        ("index of texts", lambda: _unheld(session), "all are found"),
    ):
        yield attempt(check, unless(faults, sound), REINDEX)


def _unheld(session: GraphSession) -> Iterator[str]:
    for row in session.run(load("neo4j/check/texts")):
        if row["held"] != row["wanted"]:
            yield f"{row['name']} holds {row['held']} texts, not {row['wanted']}"
