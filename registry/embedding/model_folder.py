"""What a folder of model files says about its model: shape, pooling, prompts, longest text.

The files are those that sentence-transformers writes: config.json, modules.json, 1_Pooling/config.json,
sentence_bert_config.json, config_sentence_transformers.json, tokenizer.json and model.safetensors.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from waygraph.registry.embedding.protocol import Role
from waygraph.registry.errors import EmbedderRefused

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
NEEDED = ("config.json", TOKENIZER, WEIGHTS)

PROMPT_NAMES: Mapping[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}
"""The names under which the models' authors keep the prefix of each role."""

Pooling = Literal["mean", "cls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BertShape:
    """All that decides the graph beside the weights. `hidden` is the number of columns of a vector."""

    hidden: int
    heads: int
    layers: int
    activation: str
    epsilon: float
    positions: int
    pooling: Pooling

    @property
    def digest(self) -> str:
        return _digest(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """A model's shape and how its texts are prepared. A text longer than `max_tokens` is cut there."""

    shape: BertShape
    max_tokens: int
    prompts: Mapping[Role, str]

    @property
    def digest(self) -> str:
        return _digest(self)


def _digest(value: BertShape | ModelCard) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:8]


def is_model_folder(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)


def read_card(folder: Path) -> ModelCard:
    """Raises EmbedderRefused if the model is not of the BERT family, pools in another way, or a file is damaged."""
    config = _object(folder / "config.json")
    _check_family(folder, config)
    pooling = _pooling(folder)
    with _sound(folder / "config.json"):
        shape = _shape(config, pooling)
    lengths = folder / "sentence_bert_config.json"
    with _sound(lengths):
        longest = int(_object(lengths).get("max_seq_length") or shape.positions)
    return ModelCard(shape=shape, max_tokens=min(longest, shape.positions), prompts=_prompts(folder))


def _shape(config: Mapping[str, Any], pooling: Pooling) -> BertShape:
    """Raises KeyError, TypeError or ValueError."""
    return BertShape(
        hidden=int(config["hidden_size"]),
        heads=int(config["num_attention_heads"]),
        layers=int(config["num_hidden_layers"]),
        activation=str(config["hidden_act"]),
        epsilon=float(config["layer_norm_eps"]),
        positions=int(config["max_position_embeddings"]),
        pooling=pooling,
    )


def _check_family(folder: Path, config: Mapping[str, Any]) -> None:
    family, positions = config.get("model_type"), config.get("position_embedding_type", "absolute")
    if family != "bert" or positions != "absolute":
        raise EmbedderRefused(
            f"{folder} holds a model of type {family!r} with {positions} positions; onnx: runs `bert` with "
            "absolute ones (MiniLM, bge, e5, gte, arctic). Any other: sentence-transformers:MODEL."
        )
    with _sound(folder / "modules.json"):
        modules = _json(folder / "modules.json", default=[])
        types = {str(module["type"]).rpartition(".")[2] for module in modules}
    if foreign := types - {"Transformer", "Pooling", "Normalize"}:
        raise EmbedderRefused(f"{folder}/modules.json has steps that onnx: does not know: {', '.join(foreign)}")


def _pooling(folder: Path) -> Pooling:
    config = _object(folder / "1_Pooling" / "config.json", default={"pooling_mode_mean_tokens": True})
    chosen = {k.removeprefix("pooling_mode_") for k, v in config.items() if k.startswith("pooling_mode_") and v}
    match sorted(chosen):
        case ["mean_tokens"]:
            return "mean"
        case ["cls_token"]:
            return "cls"
    raise EmbedderRefused(f"{folder}/1_Pooling/config.json pools by {sorted(chosen)}; known: mean, cls")


def _prompts(folder: Path) -> dict[Role, str]:
    file = folder / "config_sentence_transformers.json"
    with _sound(file):
        given = {str(name): prefix for name, prefix in dict(_object(file).get("prompts") or {}).items()}
        if not all(isinstance(prefix, str) for prefix in given.values()):
            raise TypeError("a prompt that is no text")
    return {role: next((given[n] for n in names if n in given), "") for role, names in PROMPT_NAMES.items()}


def _object(path: Path, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The file's object; `default`, or an empty one, where there is no such file."""
    found = _json(path, default or {})
    if not isinstance(found, Mapping):
        raise EmbedderRefused(f"{path} holds no JSON object")
    return found


def _json(path: Path, default: object) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return default
    except ValueError as exc:
        raise EmbedderRefused(f"{path} is not JSON: {exc}") from exc


@contextmanager
def _sound(file: Path) -> Iterator[None]:
    """A value of this file that cannot be is told as a fault of it."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as exc:
        raise EmbedderRefused(f"{file} lacks a sound value: {exc}") from exc
