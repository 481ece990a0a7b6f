"""The recipe of examples/router_training, run for real on a tiny random model: `make test-router-training`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import KEY, fake_openai
from tests.service import notice_of
from waygraph.api.cli.app import main

NEEDED = "trl and peft are not installed: pip install -r examples/router_training/requirements.txt"
torch = pytest.importorskip("torch", reason=NEEDED)
transformers = pytest.importorskip("transformers", reason=NEEDED)
peft = pytest.importorskip("peft", reason=NEEDED)
pytest.importorskip("trl", reason=NEEDED)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # peft calls what transformers renamed
ROOT = Path(__file__).parents[2]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS = {
    "mail": {"send-letter": "Sends a letter", "find-letter": "Finds letters"},
    "maps": {"find-way": "Finds a way", "draw-map": "Draws a map"},
}
CALLS = {"find a letter on the map": "mail/send-letter", "draw the way to the letter": "maps/draw-map"}
"""By requests that name words of each tool, what was called."""
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real chat samples, of conversations that were made by rules."""
    folder = tmp_path_factory.mktemp("samples")
    generate = ["--embedder", "none", "generate"]
    assert main([*generate, "trajectories", str(ROOT / "examples" / "catalog"), str(folder / "played"), "-n", "6"]) == 0
    options = ["--candidates", "2", "--form", "chat"]
    assert main([*generate, "router-data", str(folder / "played"), str(folder / "train.jsonl"), *options]) == 0
    return folder / "train.jsonl"


@pytest.fixture(scope="module")
def model(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), samples)


def write_model(folder: Path, samples: Path, *, width: int = 32, spread: float = 0.02) -> Path:
    """A Qwen3 of two layers with random weights of a `spread`, and a tokenizer of the samples' own bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train(
        [str(samples)], trainers.BpeTrainer(vocab_size=600, special_tokens=MARKS, initial_alphabet=alphabet)
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=MARKS[2], pad_token=MARKS[0])
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.Qwen3Config(
        vocab_size=len(fast),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=width // 2,
        initializer_range=spread,
        max_position_embeddings=8192,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    transformers.Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def train(samples: Path, adapter: Path, model: Path, *options: str) -> list[float]:
    """By the program of the example: the loss of each step."""
    words = [sys.executable, "train.py", str(samples), str(adapter), "--model", str(model), *options]
    folder = ROOT / "examples" / "router_training"
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    losses: list[float] = json.loads(done.stdout.splitlines()[-1])["losses"]
    return losses


def answer_loss(model: Any, tokenizer: Any, messages: list[dict[str, str]]) -> float:
    """Mean of the answer's tokens alone."""
    prompt = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    ids = tokenizer(whole, return_tensors="pt")["input_ids"]
    labels = ids.clone()
    labels[:, : len(tokenizer(prompt)["input_ids"])] = -100
    with torch.no_grad():
        return float(model(input_ids=ids, labels=labels).loss)


def test_an_adapter_is_trained_saved_and_loaded(samples: Path, model: Path, tmp_path: Path) -> None:
    """Two steps that learn, after one of the warm-up whose rate is 0: the loss of the answers falls, in the program's
    log and for the adapter as it is loaded again; all linear layers have one, and nothing else was trained."""
    chosen = samples.read_text(encoding="utf-8").splitlines()[:4]
    (tmp_path / "four.jsonl").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    options = ("--rank", "4", "--learning-rate", "0.05", "--batch", "4", "--steps", "3")
    first, same, last = train(tmp_path / "four.jsonl", tmp_path / "adapter", model, *options)
    assert first == pytest.approx(same, rel=1e-2)
    assert last < 0.99 * first

    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "adapter")
    base = transformers.AutoModelForCausalLM.from_pretrained(model)
    told = [json.loads(line)["messages"] for line in chosen]
    before = [answer_loss(base, tokenizer, messages) for messages in told]
    tuned = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    after = [answer_loss(tuned, tokenizer, messages) for messages in told]
    assert sum(after) < sum(before)
    adapted = {name.split(".")[-4] for name, _ in tuned.named_parameters() if "lora_A" in name}
    assert adapted == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert {path.suffix for path in (tmp_path / "adapter").glob("adapter_model*")} == {".safetensors"}


def test_a_router_that_was_trained_so_ranks_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From conversations to samples, to an adapter, to an endpoint on this machine, to `WAYGRAPH_RERANK`."""
    write_conversations(tmp_path / "played")
    lines = list[str]()
    for seed in range(8):
        words = ["router-data", str(tmp_path / "played"), str(tmp_path / "train.jsonl"), "--seed", str(seed)]
        assert main(["--embedder", "none", "generate", *words]) == 0
        lines += (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = write_model(tmp_path / "model", tmp_path / "train.jsonl", width=64, spread=0.3)
    options = ("--rank", "16", "--learning-rate", "0.02", "--batch", "16", "--at-once", "16", "--steps", "50")
    assert train(tmp_path / "train.jsonl", tmp_path / "adapter", model, *options)[-1] < 0.1

    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "adapter")
    router = peft.PeftModel.from_pretrained(
        transformers.AutoModelForCausalLM.from_pretrained(model), tmp_path / "adapter"
    )

    def answer(request: dict[str, Any]) -> str:
        prompt = tokenizer.apply_chat_template(request["messages"], tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        out = router.generate(input_ids=ids, max_new_tokens=40, do_sample=False)
        return str(tokenizer.decode(out[0][ids.shape[1] :], skip_special_tokens=True))

    base = ["--registry", str(tmp_path / "r.grafeo"), "--embedder", "none"]
    assert main([*base, "ingest", str(tmp_path / "played" / "catalog")]) == 0
    with fake_openai() as endpoint:
        endpoint.answer = answer
        for name, value in {
            "OPENAI_BASE_URL": endpoint.url,
            "OPENAI_API_KEY": KEY,
            "WAYGRAPH_RERANK": "openai:router",
        }.items():
            monkeypatch.setenv(name, value)
        for request, called in CALLS.items():
            capsys.readouterr()
            assert main([*base, "find", request, "--rerank", "default", "--json"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert (notice_of(found, "not_reranked"), len(found["matches"])) == ("", 4)
            assert found["matches"][0]["tool"]["id"] == called
        assert len(endpoint.requests) == len(CALLS)


def write_conversations(folder: Path) -> None:
    """Of a call each, with their catalogue."""
    agents = [
        {"id": agent, "name": agent, "tools": [{"name": name, "description": text} for name, text in tools.items()]}
        for agent, tools in TOOLS.items()
    ]
    (folder / "catalog").mkdir(parents=True)
    (folder / "catalog" / "agents.json").write_text(json.dumps({"waygraph": 1, "agents": agents}), encoding="utf-8")
    (folder / "dataset.json").write_text('{"catalog": "catalog"}', encoding="utf-8")
    with (folder / "trajectories.jsonl").open("w", encoding="utf-8") as file:
        for request, called in CALLS.items():
            agent, _, tool = called.partition("/")
            call = {"role": "call", "agent": agent, "tool": tool, "arguments": {}, "result": "done"}
            record = {"id": called, "turns": [{"role": "user", "text": request}, call]}
            file.write(json.dumps(record) + "\n")
