"""Our vectors beside those of sentence-transformers, which define the model: `make test-sentence-transformers`."""

from pathlib import Path

import pytest

from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding import open_embedder
from waygraph.registry.embedding.weights import locate
from waygraph.registry.model.errors import ModelNotFound
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.routing.rerank import Candidate, Choice, open_reranker

sentence_transformers = pytest.importorskip(
    "sentence_transformers",
    reason="sentence-transformers is not installed: pip install 'waygraph[sentence-transformers]'",
)

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
TEXTS = (
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "pdf",
    "What is the weather in Paris tomorrow?",
    "search_issues: Search for issues in a GitHub repository by label, assignee and free text",
    "create_calendar_event: Create an event. Parameters: title, start (ISO 8601), end, attendees (e-mail addresses)",
    "Read the complete contents of a file from the file system as text.",
    "get_stock_price",
    "Book a table for two at an Italian restaurant near the station on Friday evening",
    "GitHub: Repositories and issues. Tools: search_issues, create_issue, list_commits, fork_repository",
    "translate this contract into German",
    "Wie wird das Wetter morgen in Zürich?",
    "¿Qué tiempo hace mañana?",
    "明日の天気を教えて",
    "convert 250 USD to EUR",
    "SELECT name FROM users WHERE id = 7",
    "send_email: Send an e-mail with optional attachments to one or more recipients",
    "Who is on call this weekend?",
    "resize an image to 800x600 and make it grey",
    "list_pods: Lists the pods of a Kubernetes namespace with their state",
    "Play some jazz in the living room",
    "delete_branch",
    "summarize the last ten messages in #support",
    "Find papers about retrieval of tools for large language models",
    "transfer money from savings to checking",
    "restart the staging server",
    "an agent that knows the law of tenancy",
    "!!!",
    "the " * 300,
    "Deploys, scales and watches applications. " * 12,
)


@pytest.mark.parametrize(("precision", "cosine"), [("int8", 0.98), ("float32", 0.9999)])
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, precision: str, cosine: float) -> None:
    """Each text's vector has a cosine of at least .98 (int8) or .9999 (float32) to the reference."""
    settings = Settings(cache_dir=str(tmp_path))
    ours = open_embedder(f"{DEFAULT_EMBEDDER}?precision={precision}", settings, {})
    reference = open_embedder(f"sentence-transformers:{locate(DEFAULT_EMBEDDER, settings)}", settings, {})
    assert ours is not None
    assert reference is not None
    cosines = (ours.embed(TEXTS, "document") * reference.embed(TEXTS, "document")).sum(axis=1)
    assert cosines.min() >= cosine, dict(zip(TEXTS, cosines.round(4), strict=True))


@pytest.fixture
def tiny_cross_encoder(tmp_path: Path) -> Path:
    """A cross-encoder of random weights with the default model's tokenizer: it runs, and knows nothing."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(3)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(locate(DEFAULT_EMBEDDER, Settings())))
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=1,
    )
    folder = tmp_path / "cross-encoder"
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_cross_encoder_puts_candidates_in_the_order_of_its_scores(tiny_cross_encoder: Path) -> None:
    """Pair by pair, best first, as the library itself scores them; in a route the recipe's name tells of it."""
    reranker = open_reranker(f"cross-encoder:{tiny_cross_encoder}", Settings(), {})
    documents = TEXTS[:12]
    scores = sentence_transformers.CrossEncoder(str(tiny_cross_encoder), num_labels=1).predict(
        [("pay a bill", text) for text in documents]
    )
    order = reranker.order(Choice(query="pay a bill", candidates=[Candidate("", text) for text in documents]))
    assert [float(scores[at]) for at in order] == sorted(map(float, scores), reverse=True)
    assert sorted(order) == list(range(len(documents)))
    assert order != tuple(range(len(documents)))
    settings = Settings(embedder="none")
    with Registry.open(":memory:", settings=settings, environ={}) as registry:
        for manifest in read_path(str(CATALOG), settings):
            sync(registry, manifest)
        recipe = recipe_named("lexical", rerank=f"cross-encoder:{tiny_cross_encoder}")
        fused, route = registry.route("book a table", recipe="lexical"), registry.route("book a table", recipe=recipe)
    assert route.recipe == recipe.name
    assert [match.agent.id for match in route.matches] != [match.agent.id for match in fused.matches]


def test_a_cross_encoder_that_is_not_here_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="not on this machine"):
        open_reranker(f"cross-encoder:{tmp_path / 'nothing'}", Settings(), {})
