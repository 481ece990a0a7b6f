"""What questions made of tools' own schemas add to routing, and key topics of tools, each as a component of its own.

No language model is asked. The same requests are routed over registries that differ in nothing but what stands as the
questions of their tools.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from benchmarks.record import Measure, Result
from benchmarks.world import EXAMPLES, NATURAL, World
from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.index.analyser import rarity, telling_words
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.identity import sealed_tool
from waygraph.registry.model.nouns import Query, TextForm, Tool
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, By
from waygraph_lab.evaluation.metrics import interval, measure_query
from waygraph_lab.evaluation.schema_questions import schema_questions
from waygraph_lab.template_questions import TemplateAuthor

NAME = "questions"
SETS: Sequence[tuple[str, By]] = (("livemcpbench", "steps"), (NATURAL, "questions"), (EXAMPLES, "questions"))
MOST, DEPTH = 300, 20
COUNT, TOPICS = 5, 5
"""Questions and topics of a tool."""
NONE, TEMPLATES, SCHEMAS, BOTH, KEY_TOPICS = "none", "templates", "schemas", "templates and schemas", "topics"
WORDS, VECTORS = "words", "words and vectors"
FORMS: Mapping[str, TextForm] = {WORDS: "contextual", VECTORS: "tdwa:name=.3,description=.4,parameters=.1,questions=.2"}
"""`contextual` is the default, whose vectors know no questions; in the other they are a fifth of each vector."""
METRICS = ("Recall@1", "Recall@5", "nDCG@5")
NOTES = (
    f"Each tool has at most {COUNT} questions, or one line of {TOPICS} topics: its terms with the highest TF-IDF over "
    "the catalogue. `templates`: what `--questions-by templates` made of names, sentences and names of parameters. "
    "`schemas`: with values, of the kinds, examples, defaults and choices of parameters.",
    "`words`: the default form of texts, where questions count in word search alone. `words and vectors`: also a fifth "
    "of each tool's vector. A gain is in nDCG@5 over no questions in the same form, with its 95 % bootstrap interval. "
    "Recipe: hybrid, tools.",
)


def run(world: World) -> Result:
    """Skips the data sets that are not there."""
    rows = [row for name, by in SETS if world.has(name) for row in rows_of(world, name, by)]
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[
            Measure(name=f"{row['data']}, {row['component']} in {row['in']}: {metric}", value=row[metric])
            for row in rows
            for metric in METRICS
        ],
        notes=NOTES,
        details={"rows": rows},
    )


def rows_of(world: World, name: str, by: By) -> Iterator[dict[str, Any]]:
    dataset = world.dataset(name)
    asked = [query for query in dataset.queries(by) if query.gold_tools]
    asked = [asked[place * len(asked) // min(MOST, len(asked))] for place in range(min(MOST, len(asked)))]
    for where, form in FORMS.items():
        plain: list[float] = []
        for component, author in authors(dataset.catalogue).items():
            judged = judge(world, _with_lines(dataset.catalogue, author), form, asked)
            ndcg = [each["nDCG@5"] for each in judged]
            plain = plain or ndcg
            gains = [one - other for one, other in zip(ndcg, plain, strict=True)]
            means = {metric: round(fmean(each[metric] for each in judged), 4) for metric in METRICS}
            gain = [round(value, 4) for value in (fmean(gains), *interval(gains))] if component != NONE else None
            yield {"data": name, "in": where, "component": component, "requests": len(asked), **means, "gain": gain}


type Author = Callable[[AgentEntry, Tool], Sequence[str]]


def authors(manifest: Manifest) -> Mapping[str, Author]:
    """Component → the lines that it has of a tool. The first is no component."""
    topics = key_topics(manifest)
    return {
        NONE: lambda *_: (),
        TEMPLATES: lambda entry, tool: TemplateAuthor().questions(entry.agent, tool, COUNT),
        SCHEMAS: _by_schema,
        BOTH: lambda entry, tool: [*_by_schema(entry, tool), *TemplateAuthor().questions(entry.agent, tool, COUNT)],
        KEY_TOPICS: lambda _, tool: topics.get(tool.id, ()),
    }


def _by_schema(entry: AgentEntry, tool: Tool) -> list[str]:
    return [*schema_questions(entry.agent, tool)][:COUNT]


def key_topics(manifest: Manifest) -> Mapping[str, Sequence[str]]:
    """Tool id → one line of its telling words with the highest TF-IDF over all tools; of equal ones the first."""
    words: dict[str, Counter[str]] = {}
    spelling: dict[str, str] = {}
    for entry in manifest.entries:
        for tool in entry.tools:
            pairs = list(telling_words(f"{entry.agent.name} {tool.name} {tool.description}"))
            words[tool.id] = Counter(term for term, _ in pairs)
            spelling |= dict(pairs)
    having = Counter(term for terms in words.values() for term in terms)
    weights = {term: rarity(number, len(words)) for term, number in having.items()}
    ranked = {
        tool_id: sorted(terms, key=lambda term: (-terms[term] * weights[term], term))
        for tool_id, terms in words.items()
    }
    return {
        tool_id: [" ".join(spelling[term] for term in terms[:TOPICS])] for tool_id, terms in ranked.items() if terms
    }


def _with_lines(manifest: Manifest, author: Author) -> Manifest:
    entries = (
        replace(
            entry,
            tools=tuple(
                sealed_tool(replace(tool, questions=tuple(dict.fromkeys(author(entry, tool))))) for tool in entry.tools
            ),
        )
        for entry in manifest.entries
    )
    return replace(manifest, entries=tuple(entries))


def judge(world: World, manifest: Manifest, form: TextForm, asked: Sequence[Asked]) -> list[Mapping[str, float]]:
    """The metrics of each request."""
    with world.registry_of([manifest], texts=form) as registry:
        found = (registry.find_tools(Query(text=query.texts[0], limit=DEPTH)).matches for query in asked)
        ids = [[match.tool.id for match in matches] for matches in found]
    return [measure_query(each, query.gold_tools) for each, query in zip(ids, asked, strict=True)]


def tables_of(details: Mapping[str, Any]) -> str:
    gain = "{:+.3f} [{:+.3f}, {:+.3f}]".format
    rows = [[*list(row.values())[:-1], gain(*row["gain"]) if row["gain"] else ""] for row in details["rows"]]
    return f"What questions of schemas and topics add:\n\n{markdown_table(tuple(details['rows'][0]), rows)}"
