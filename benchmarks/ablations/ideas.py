"""The ideas. Each takes the queries of a dataset and scores every agent for each; `BASELINE` is what ships.

None has a setting for a dataset. Where an idea has a strength, one was chosen before it was tried here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.ablations.case import Case, Matrix, vectors_of
from benchmarks.ablations.learned import learned
from benchmarks.ablations.worths import (
    LEGS,
    SHARES,
    above_the_last,
    among_the_best,
    hybrid,
    scale_of_words,
    worth_of_words,
    worths_of,
)
from waygraph.ingest.manifest.questions import TemplateAuthor, with_questions
from waygraph.registry.embedding.texts import agent_texts, query_text, tool_texts
from waygraph.registry.index.analyser import query_terms
from waygraph.registry.index.search_index import TEXT_LEGS, Leg
from waygraph.registry.model.changes import Manifest
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings

Idea = Callable[[Case], Matrix]
"""Queries → (queries, agents), higher is better."""

NEIGHBOURS = 10
QUOTED = re.compile(r"(?<!\w)['\"“‘「][^'\"”’」]{1,80}['\"”’」](?!\w)")
NUMBER = re.compile(r"\b\d[\d.,:/\-]*(?:st|nd|rd|th|%|k|km|am|pm)?\b", re.IGNORECASE)
PROPER = re.compile(r"(?<=[a-z,;] )[A-Z][\w'’]*(?:\s+[A-Z][\w'’]*)*")
LEAD = re.compile(
    r"^(?:(?:hi|hey|hello|please|kindly|(?:could|can|would) you|i (?:want|need|would like) (?:you )?to|help me(?: to)?"
    r"|请帮我|请|帮我|我想要?|我需要|你能)[\s,]*){1,4}",
    re.IGNORECASE,
)
CLAUSE = re.compile(
    r"(?<=[.!?;。！？；])\s*|\n+|[,，、:：]\s*(?=\S)|\s+(?:and|then|but|so|also)\s+|并且|然后|以及", re.IGNORECASE
)
MOST_CLAUSES = 16


def without(pattern: re.Pattern[str], *, words: bool = True) -> Idea:
    return lambda case: hybrid(case.asking(lambda text: " ".join(pattern.sub(" ", text).split()), words=words))


def as_written(case: Case) -> Matrix:
    """URLs, paths and ids read letter by letter."""
    return hybrid(case.reading([query_text(text, literals=True) for text in case.raw]))


def clauses(case: Case, *, weight: float = 1.0, apart: re.Pattern[str] = CLAUSE) -> Matrix:
    """Beside the whole text, the best of its clauses: a page-long request names its need in one of them."""
    agents, capabilities = case.agent_cosines.copy(), case.capability_cosines.copy()
    for row, text in enumerate(case.texts):
        parts = [part for part in apart.split(text) if part and len(query_terms(part)) > 1][:MOST_CLAUSES]
        if len(parts) > 1:
            vectors = case.catalogue.embed(parts)
            for whole, entities in ((agents, case.catalogue.agents), (capabilities, case.catalogue.capabilities)):
                best = (vectors @ entities.T).max(axis=0)
                whole[row] = (whole[row] + weight * best) / (1 + weight)
    return hybrid(case, agent_cosines=agents, capability_cosines=capabilities)


def centred(case: Case) -> Matrix:
    """The catalogue's mean taken from every vector: what all have in common tells nothing."""
    mean = np.concatenate([case.catalogue.agents, case.catalogue.capabilities]).mean(axis=0)
    moved = replace(
        case.catalogue,
        agents=unit(case.catalogue.agents - mean),
        capabilities=unit(case.catalogue.capabilities - mean),
    )
    return hybrid(replace(case, catalogue=moved, vectors=unit(case.vectors - mean)))


def without_hubs(case: Case, *, strength: float = 0.2) -> Matrix:
    """Less for entities that are near to many others."""
    return hybrid(
        case,
        agent_cosines=case.agent_cosines - nearness(case.catalogue.agents, strength),
        capability_cosines=case.capability_cosines - nearness(case.catalogue.capabilities, strength),
    )


def without_hubs_of_others(case: Case, *, strength: float = 0.2) -> Matrix:
    """Less for tools that are near to many tools of other agents."""
    near = nearness(case.catalogue.capabilities, strength, case.catalogue.owners)
    return hybrid(case, capability_cosines=case.capability_cosines - near)


def nearness(rows: Matrix, strength: float, owners: NDArray[np.intp] | None = None) -> Matrix:
    """Mean cosine of each row with its nearest others, less the mean of that, times `strength`.

    With `owners`, one a row, those of the same owner are no others.
    """
    cosines = rows @ rows.T
    if owners is not None:
        cosines[owners[:, None] == owners] = -1
    np.fill_diagonal(cosines, -1)
    near = np.sort(cosines, axis=1)[:, -NEIGHBOURS:].mean(axis=1)
    return (strength * (near - near.mean())).astype(np.float32)


def feedback(case: Case, *, strength: float = 0.3, best: int = 5) -> Matrix:
    """Rocchio: the query moved towards the mean of what it finds first."""
    nearest = np.argsort(-case.capability_cosines, axis=1)[:, :best]
    means = np.stack([case.catalogue.capabilities[rows].mean(axis=0) for rows in nearest])
    return hybrid(replace(case, vectors=unit(case.vectors + strength * unit(means))))


def walk(case: Case, *, restart: float = 0.7, steps: int = 10) -> Matrix:
    """Random walk with restart over agents, each linked to its nearest by vector."""
    cosines = np.maximum(case.catalogue.agents @ case.catalogue.agents.T, 0)
    np.fill_diagonal(cosines, 0)
    least = np.sort(cosines, axis=1)[:, -min(NEIGHBOURS, len(cosines))][:, None]
    links = np.where(cosines >= least, cosines, 0)
    links /= np.maximum(links.sum(axis=1, keepdims=True), 1e-9)
    start = scores = hybrid(case)
    for _ in range(steps):
        scores = (restart * start + (1 - restart) * scores @ links.T).astype(np.float32)
    return scores


def by_size(case: Case, *, strength: float = 0.01) -> Matrix:
    """Less for agents with many tools, whose best is the best of many: sqrt(2 ln n) for n tools."""
    sizes = np.bincount(case.catalogue.owners, minlength=len(case.catalogue.entries))
    return (hybrid(case) - strength * np.sqrt(2 * np.log(sizes))).astype(np.float32)


def second_best(case: Case, *, strength: float = 0.2) -> Matrix:
    """The second-best tool counts too."""
    worth = above_the_last(case.capability_cosines)
    best = case.catalogue.best_of_owner(worth)
    beaten = np.where(worth >= best[:, case.catalogue.owners], 0, worth).astype(np.float32)
    return (hybrid(case) + strength * case.catalogue.best_of_owner(beaten)).astype(np.float32)


def of_one_tool(case: Case) -> Matrix:
    """Vector and words of one and the same tool, where `hybrid` takes the best tool by either."""
    best, words = case.catalogue.best_of_owner, among_the_best(case.capability_words)
    share = dict(zip(LEGS, SHARES, strict=True))["capability_text"]
    both = above_the_last(case.capability_cosines) + share * words / scale_of_words(best(words))
    found = best(both.astype(np.float32))
    return hybrid(case, worths={"capability_vector": found, "capability_text": np.zeros_like(case.agent_words)})


def words_above_the_last(case: Case) -> Matrix:
    """BM25 above the last candidate's, as cosines count: what a hundred have in common speaks for none of them."""
    capabilities = case.catalogue.best_of_owner(above_the_last(case.capability_words))
    return hybrid(
        case,
        worths={
            "capability_text": worth_of_words(capabilities),
            "agent_text": worth_of_words(above_the_last(case.agent_words)),
        },
    )


def by_coverage(case: Case, *, enough: float = 1 / 3) -> Matrix:
    """Words count for less where even the best hit holds less than `enough` of what is rare in the query."""
    own = dict(zip(LEGS, worths_of(case), strict=True))
    worths: dict[Leg, Matrix] = {
        leg: own[leg] * np.minimum(case.catalogue.coverage(leg, case.texts) / enough, 1) for leg in TEXT_LEGS
    }
    return hybrid(case, worths=worths)


def centroids(case: Case, *, strength: float = 0.5) -> Matrix:
    """An agent's vector moved towards the mean of its tools."""
    sums = np.zeros_like(case.catalogue.agents)
    np.add.at(sums, case.catalogue.owners, case.catalogue.capabilities)
    return hybrid(case, agent_cosines=case.vectors @ unit(case.catalogue.agents + strength * unit(sums)).T)


def one_view(case: Case, *, view: int) -> Matrix:
    """Tools by one of the two texts that make their vector: 0 with the agent's name, 1 with parameters."""
    rows = case.catalogue.capabilities.copy()
    texts = {
        tool.id: tool_texts("contextual", entry.agent, tool, Settings().max_embedded_chars)[view]
        for entry in case.catalogue.entries
        for tool in entry.tools
    }
    places = [row for row, name in enumerate(case.catalogue.capability_ids) if name in texts]
    if places:
        rows[places] = case.catalogue.embed([texts[case.catalogue.capability_ids[row]] for row in places], "document")
    return hybrid(case, capability_cosines=case.vectors @ rows.T)


def other_texts(case: Case, *, form: TextForm, questions: int = 0) -> Matrix:
    """Tools by the weighted parts of ScaleMCP (its Equation 1), with questions that templates made up."""
    manifest = with_questions(Manifest(source="", entries=case.catalogue.entries), TemplateAuthor(), questions)
    vectors = vectors_of(manifest.entries, form, case.catalogue.documents)
    rows = np.stack([vectors[name] for name in case.catalogue.capability_ids])
    return hybrid(case, capability_cosines=case.vectors @ rows.T)


def bare_agents(case: Case) -> Matrix:
    """Agents by name and description alone, without the names of their tools."""
    texts = [
        agent_texts("plain", entry.agent, (), Settings().max_embedded_chars)[0] for entry in case.catalogue.entries
    ]
    return hybrid(case, agent_cosines=case.vectors @ case.catalogue.embed(texts, "document").T)


def acronyms(case: Case, *, strength: float = 0.1) -> Matrix:
    """A word in capitals that is made of the initials of an agent's or tool's name."""
    scores = hybrid(case)
    initials = [
        {_initials(name) for name in (entry.agent.name, *(tool.name for tool in entry.tools))}
        for entry in case.catalogue.entries
    ]
    for row, text in enumerate(case.texts):
        asked = set(re.findall(r"\b[A-Z]{3,6}\b", text))
        scores[row] += strength * np.array([bool(asked & known) for known in initials])
    return scores


def deviations(case: Case) -> Matrix:
    """Cosines too in standard deviations over the population, as words are."""
    return hybrid(
        case,
        worths={
            "agent_vector": worth_of_words(case.agent_cosines),
            "capability_vector": worth_of_words(case.catalogue.best_of_owner(case.capability_cosines)),
        },
    )


def ranks(case: Case, *, k: float = 10.0) -> Matrix:
    """Reciprocal ranks of agents in every leg, as the recipe `ranks`."""
    worths = (
        (1.0, case.catalogue.best_of_owner(above_the_last(case.capability_cosines))),
        (0.5, above_the_last(case.agent_cosines)),
        (0.75, case.catalogue.best_of_owner(case.capability_words)),
        (0.25, case.agent_words),
    )
    return np.asarray(sum(share * _reciprocal(worth, k) for share, worth in worths), dtype=np.float32)


def _reciprocal(worth: Matrix, k: float) -> Matrix:
    places = np.argsort(np.argsort(-worth, axis=1, kind="stable"), axis=1) + 1
    return np.where(worth > 0, 1 / (k + places), 0).astype(np.float32)


def _initials(name: str) -> str:
    return "".join(word[0] for word in re.findall(r"[A-Za-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))).upper()


def unit(rows: NDArray[np.floating]) -> Matrix:
    """Rows scaled to length 1; zeros stay."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Matrix = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0).astype(np.float32)
    return scaled


BASELINE = "hybrid"
IDEAS: Mapping[str, Idea] = {
    BASELINE: hybrid,
    "query: literals as written": as_written,
    "query: quoted values left out": without(QUOTED),
    "query: numbers left out": without(NUMBER),
    "query: names left out of the vector": without(PROPER, words=False),
    "query: polite openings left out": without(LEAD),
    "query: best clause beside the whole": clauses,
    "query: best sentence beside the whole": partial(clauses, apart=re.compile(r"(?<=[.!?;。！？；])\s*|\n+")),
    "query: feedback of the first found": feedback,
    "vectors: centred": centred,
    "vectors: less for hubs": without_hubs,
    "vectors: less for tools near to others' tools": without_hubs_of_others,
    "vectors: agents towards their tools": centroids,
    "vectors: agents without tool names": bare_agents,
    "vectors: tools with agent names only": partial(one_view, view=0),
    "vectors: tools with parameters only": partial(one_view, view=1),
    "vectors: TDWA var-1 of ScaleMCP": partial(other_texts, form="tdwa-1"),
    "vectors: TDWA var-2 of ScaleMCP": partial(other_texts, form="tdwa-2"),
    "vectors: TDWA var-2, 5 questions by template": partial(other_texts, form="tdwa-2", questions=5),
    "vectors: one text, 5 questions by template": partial(other_texts, form="concat", questions=5),
    "fusion: reciprocal ranks": ranks,
    "fusion: cosines in deviations": deviations,
    "fusion: words above the last read": words_above_the_last,
    "fusion: words by the share of the query they cover": by_coverage,
    "fusion: vector and words of one tool": of_one_tool,
    "fusion: second-best tool": second_best,
    "fusion: less for many tools": by_size,
    "fusion: acronyms of names": acronyms,
    "fusion: walk over neighbours": walk,
    "fusion: shares learned from invented requests": learned,
}
