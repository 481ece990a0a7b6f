"""`waygraph learn embedder`, run for real on a tiny random model: `make test-sentence-transformers`."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from tests.docs.test_cli_pages import misfit
from waygraph.api.cli.app import main
from waygraph.registry.embedding.weights import locate
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph_lab.training.embedder_training import Pair, Training, train

NEEDED = "transformers with torch is not installed: pip install 'waygraph-lab[train]'"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", reason=NEEDED)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
THINGS = ("weather", "music", "bank", "train", "recipe", "garden", "chess", "tax")
PAIRS = [
    Pair(f"{ask} {thing}", f"{thing}: about {thing}", (f"{other}: about {other}",))
    for ask in ("please, the", "I want", "where is the", "help with", "more of the", "what of")
    for thing, other in zip(THINGS, THINGS[1:] + THINGS[:1], strict=True)
]
TRAINING = Training(batch=8, epochs=3, rate=1e-3, bfloat16=False)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights and the default model's tokenizer."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(locate(DEFAULT_EMBEDDER, Settings())))
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def test_the_loss_falls_and_a_stopped_training_goes_on_to_the_same_bytes(base: Path, tmp_path: Path) -> None:
    losses: list[float] = []
    whole = train(base, PAIRS, TRAINING, tmp_path / "whole", lambda *told: losses.append(told[2]))
    assert len(losses) == 18
    assert sum(losses[-4:]) < sum(losses[:4])

    class Stopped(Exception):
        pass

    def stop(step: int, *_: Any) -> None:
        if step == 12:
            raise Stopped

    with pytest.raises(Stopped):
        train(base, PAIRS, TRAINING, tmp_path / "stopped", stop, save_steps=5)
    steps: list[int] = []
    resumed = train(base, PAIRS, TRAINING, tmp_path / "stopped", lambda step, *_: steps.append(step), save_steps=5)
    assert steps[0] == 11
    assert digest(resumed) == digest(whole)
    with pytest.raises(InvalidSetting):
        train(base, PAIRS[1:], TRAINING, tmp_path / "whole")


def test_only_the_upper_layers_are_trained(base: Path, tmp_path: Path) -> None:
    tuned = load_file(train(base, PAIRS, Training(batch=8, layers=1, bfloat16=False), tmp_path))
    own = load_file(base / "model.safetensors")
    changed = {name.split(".")[2] for name in own if name in tuned and (own[name] != tuned[name]).any()}
    assert changed == {"1"}


def test_the_command_writes_a_model_that_routes_and_its_card(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The strength is chosen on the set to develop on; a model that does not gain is not written."""
    data, model = tmp_path / "data", tmp_path / "model"
    data.mkdir()
    agents = [{"id": thing, "tools": [{"name": thing, "description": f"about {thing}"}]} for thing in THINGS]
    queries = [
        {"id": str(place), "text": pair.request, "gold": [[pair.right.partition(":")[0]]]}
        for place, pair in enumerate(PAIRS)
    ]
    for name, records in (("agents", agents), ("queries", queries)):
        (data / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    (data / "dataset.json").write_text(json.dumps({"name": "things", "license": "CC0"}))
    options = ["--base", f"onnx:{base}", "--to", str(model), "--develop", str(data), "--epochs", "2", "--json"]
    assert main(["learn", "embedder", str(data), *options]) == 0
    card = json.loads(capsys.readouterr().out)
    assert misfit(card, "learn embedder") == ""
    assert card == json.loads((model / "card.json").read_text())
    assert [(each["name"], each["license"]) for each in card["data"]] == [("things", "CC0")]
    assert {row["metric"] for row in card["figures"]} == {"Recall@1", "Recall@5", "nDCG@5"}
    assert {row["strength"] for row in card["figures"]} == {0.5, 0.75, 1.0}
    assert (model / "model.safetensors").is_file() == (card["strength"] > 0)
    if card["strength"]:
        place = ["--registry", str(tmp_path / "r.grafeo"), "--embedder", f"onnx:{model}"]
        assert main([*place, "ingest", str(Path(__file__).parents[2] / "examples" / "catalog")]) == 0
        assert main([*place, "route", "book a table"]) == 0
