"""A million vectors in one index file: what the first look by signs misses, and what it saves."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from itertools import batched, chain
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.processes import status_mib
from benchmarks.record import Measure, Result, Target
from benchmarks.timing import RUN, CallTime, percentile, time_call
from benchmarks.world import World, scratch_folder, show_progress
from waygraph.registry.embedding.cache import CachedEmbedder, vector_file_path
from waygraph.registry.embedding.embedder import Matrix, Vector
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.embedding.texts import TextForms, new_vectors
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.index.local.file import (
    COLUMN_ROWS,
    Columns,
    Flag,
    Header,
    IndexFile,
    create_file,
    encode,
    open_to_read,
    path_of,
    row_type,
)
from waygraph.registry.index.local.local_index import SIGN_SHARE, LocalIndex
from waygraph.registry.index.local.scoring import Codes, encode_vector, nearness
from waygraph.registry.index.search_index import Leg, QueryText, Scope
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.nouns import Tool
from waygraph_lab.datasets.conversations import lines, read_catalogue

NAME = "million"
EMBEDDER = "onnx:waygraph-minilm"
CATALOGUES = (
    *(f"training/{name}" for name in ("toucan", "bfcl", "metatool", "nestools", "seal", "toolalpaca", "tooleyes")),
    *("training/toollinkos", "livemcpbench/tools.json"),
    *(f"catalogs/{name}" for name in ("docker_mcp_registry.json", "awesome_mcp.jsonl", "mcp_registry_seed.json")),
)
QUERIES = ("bfcl", "metatool", "nestools", "seal", "toolalpaca", "tooleyes", "toollinkos", "typed")
QUERIES_OF_EACH = 150
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1)
ROWS, QUICK_ROWS, TIMED, QUICK_TIMED = 1_000_000, 40_000, 200, 20
TOOLS_OF_AGENT, NOISE = 9, 0.5
"""Of the invented rows. The noise is so long, beside vectors of length 1."""
DEPTH = 100
SIGNS, WHOLE = "by signs first", "all compared"
LEGS: Sequence[Leg] = ("agent_vector", "tool_vector")
FOUND = Target(bound="at_least", value=0.999)
P50, MEMORY = Target(bound="at_most", value=20), Target(bound="at_most", value=1_500)
NOTES = (
    "Share looked at again: of all real vectors of agents and tools that the data folder has, so many as are nearest "
    "by their signs; counted is how many of the ten and the hundred best by exact score are among them.",
    "The file holds real vectors, each with noise of its own, of agents with nine tools; it has neither words nor "
    "records. Both arms ask one process for the vector legs to depth 100, in runs in turn, over one copy of the rows.",
    "Memory: of a process that opened the file and searched once by each query.",
)


def run(world: World) -> Result:
    rows = world.sizes[-1] if world.sizes else QUICK_ROWS if world.quick else ROWS
    vectors, queries = real_vectors(world)
    timed = queries[:: max(1, len(queries) // (QUICK_TIMED if world.quick else TIMED))]
    with scratch_folder() as folder:
        write_index(folder, vectors, rows)
        measures = [
            *measure_recall(vectors, queries),
            *measure_times(folder, timed, rows),
            *_memory(folder, timed, rows),
        ]
    details = {"vectors": len(vectors), "queries": len(queries), "timed": len(timed), "share": SIGN_SHARE}
    return Result(name=NAME, embedder=EMBEDDER, measures=measures, notes=NOTES, details=details)


def real_vectors(world: World) -> tuple[Matrix, Matrix]:
    """Distinct vectors of agents and tools, and vectors of queries, float32 of shape (count, dimension)."""
    inner = open_embedder(EMBEDDER, world.settings, world.environ)
    assert inner is not None
    embedder = CachedEmbedder(inner, vector_file_path(world.settings, inner.fingerprint))
    forms = TextForms(form="contextual", max_chars=world.settings.max_embedded_chars)
    catalogues = [world.data / name for name in (CATALOGUES[2:3] if world.quick else CATALOGUES)]
    parts = {
        f"{path} {entity}": texts
        for path in catalogues
        if path.exists()
        for entity, texts in forms.of_entries(read_catalogue(str(path), world.settings).entries).items()
    }
    found = new_vectors(parts, {}, embedder, show_progress("embedding")).vectors
    vectors = np.unique([vector for entity in parts if (vector := found[entity]) is not None], axis=0)
    texts = [text for name in QUERIES for text in _some_queries(world.data / "training" / name / "queries.jsonl")]
    return vectors[vectors.any(axis=1)], embedder.embed(texts, "query")


def _some_queries(path: Path) -> list[str]:
    """Spread evenly over all."""
    texts = [record["text"] for _, record in lines(path)]
    return texts[:: max(1, len(texts) // QUERIES_OF_EACH)][:QUERIES_OF_EACH]


def measure_recall(vectors: Matrix, queries: Matrix) -> Iterator[Measure]:
    codes, numbers = Codes.empty(*vectors.shape), np.zeros(len(vectors), row_type(vectors.shape[1]))
    for row, vector in enumerate(vectors):
        numbers["codes"][row], numbers["scale"][row], numbers["error"][row] = encode_vector(vector)
    codes.put(0, numbers)
    rows = np.arange(len(vectors))
    found: dict[tuple[int, float], list[float]] = {}
    for query in queries:
        best, distances = np.argsort(-np.vecdot(vectors, query), kind="stable"), codes.sign_distances(query, len(rows))
        for share in SHARES:
            near = np.flatnonzero(distances <= nearness(distances, rows, int(len(rows) * share)))
            for count in (10, 100):
                found.setdefault((count, share), []).append(float(np.isin(best[:count], near).mean()))
    for (count, share), shares in found.items():
        target = FOUND if (count, share) == (10, SIGN_SHARE) else None
        name = f"the {count} best found, {share:.1%} of {len(rows)} real vectors looked at again"
        yield Measure(name=name, value=float(np.mean(shares)), target=target)


def write_index(folder: Path, vectors: Matrix, rows: int) -> None:
    """An index file of so many rows, each a vector of these with noise: float32 of shape (vectors, dimension)."""
    dimension, random = vectors.shape[1], np.random.default_rng(0)
    state = IndexState(
        revision=1,
        embedder=EMBEDDER,
        embedder_spec=EMBEDDER,
        texts="contextual",
        dimension=dimension,
        agents=-(-rows // (TOOLS_OF_AGENT + 1)),
        tools=rows - -(-rows // (TOOLS_OF_AGENT + 1)),
        schema_version=1,
    )
    with closing(create_file(path_of(folder, 1))) as file, file.at_once():
        file.put("words", [(0, encode({}))])
        for numbers in batched(range(rows), COLUMN_ROWS):
            near = vectors[random.integers(len(vectors), size=len(numbers))]
            noise = random.normal(0, NOISE / dimension**0.5, (len(numbers), dimension))
            _put_rows(file, numbers, (near + noise).astype(np.float32))
        file.put_header(Header(state=state, rows=rows, serial=1, owners=state.agents, buckets=1))


def _put_rows(file: IndexFile, rows: Sequence[int], vectors: Matrix) -> None:
    columns = np.zeros(len(rows), row_type(vectors.shape[1]))
    ids, facts = list[str](), list[str]()
    for place, row in enumerate(rows):
        vectors[place] /= np.linalg.norm(vectors[place])
        owner, tool = divmod(row, TOOLS_OF_AGENT + 1)
        columns["owner"][place], columns["flags"][place] = owner + 1, Flag.VECTOR | Flag.TOOL * bool(tool)
        columns["codes"][place], columns["scale"][place], columns["error"][place] = encode_vector(vectors[place])
        ids.append(f"agent-{owner}" + f"/tool-{tool}" * bool(tool))
        facts.append(CallFacts.of(Tool(id=ids[-1], agent_id=f"agent-{owner}", name=f"tool-{tool}")).pack())
    columns["check"] = file.put_vectors(dict(zip(rows, vectors, strict=True)))
    file.put("columns", [(rows[0] // COLUMN_ROWS, Columns(ids, facts, columns).pack())])


def measure_times(folder: Path, queries: Matrix, rows: int) -> Iterator[Measure]:
    with closing(LocalIndex.open(folder)) as index, closing(open_to_read(folder)) as file:
        indexes = {SIGNS: index, WHOLE: LocalIndex(file, index, exact=True)}
        found = {name: [search(each, query) for query in queries] for name, each in indexes.items()}
        times: dict[str, list[list[CallTime]]] = {name: [] for name in indexes}
        for turn, some in enumerate(batched(queries, RUN)):
            for name in list(indexes)[:: -1 if turn % 2 else 1]:
                times[name].append([time_call(partial(search, indexes[name], query)) for query in some])
    pairs = zip(chain.from_iterable(found[SIGNS]), chain.from_iterable(found[WHOLE]), strict=True)
    same = [len({*one[:10]} & {*other[:10]}) / 10 for one, other in pairs]
    yield Measure(name=f"the 10 best of a leg found among {rows} rows", value=float(np.mean(same)), target=FOUND)
    what = f"vector legs over {rows} rows"
    for name, runs in times.items():
        p50, cpu_p50 = (
            percentile([getattr(each, unit) for run in runs for each in run], 0.5) for unit in ("ms", "cpu_ms")
        )
        target = P50 if name == SIGNS else None
        yield Measure(name=f"{what}, {name}, p50", value=p50, unit="ms", target=target)
        yield Measure(name=f"{what}, {name}, p50 of processor time", value=cpu_p50, unit="ms")
    pairs_of_runs = zip(times[SIGNS], times[WHOLE], strict=True)
    ratio = median(median(each.ms for each in one) / median(each.ms for each in other) for one, other in pairs_of_runs)
    yield Measure(name=f"{what}, {SIGNS} / {WHOLE}", value=ratio, unit="×")


def search(index: LocalIndex, query: Vector) -> list[list[int]]:
    """The best rows of each leg."""
    hits = index.search(LEGS, query, QueryText(), DEPTH, Scope())
    return [hits.legs[leg].rows.tolist() for leg in LEGS]


def _memory(folder: Path, queries: Matrix, rows: int) -> Iterator[Measure]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        mib = pool.submit(reader_mib, folder, queries).result()
    yield Measure(name=f"a reader of {rows} rows, resident memory", value=mib["VmRSS:"], unit="MiB", target=MEMORY)
    yield Measure(name=f"a reader of {rows} rows, peak", value=mib["VmHWM:"], unit="MiB")


def reader_mib(folder: Path, queries: Matrix) -> Mapping[str, float]:
    """Of this process, after it searched the index in `folder` once by each query."""
    with closing(LocalIndex.open(folder)) as index:
        for query in queries:
            search(index, query)
        return {name: status_mib(os.getpid(), name) for name in ("VmRSS:", "VmHWM:")}
