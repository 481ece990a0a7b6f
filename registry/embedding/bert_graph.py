"""A BERT encoder as an ONNX graph, made from the weights: token ids in, a vector of length 1 out.

The graph takes one text at a time. Dynamic quantization scales activations over all that runs together, so in
a batch a text's vector would depend on its neighbours; alone it cannot. It also needs no padding and no mask.

Operators of `com.microsoft` are part of every onnxruntime, on every processor, so nothing is left to fuse when
it is loaded. Two choices make a short query faster, or the same everywhere, and are bound to no hardware:
- query, key and value are one product of triple width, so the input is quantized once;
- int8 weights keep to ±64: two products of a weight and a uint8 activation then fit in the int16 sums of AVX2,
  which saturate silently, so AVX2, VNNI and NEON give the same product. (Their other operators round in their own
  ways: a cosine differs in the third digit.)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors import SafetensorError
from safetensors.numpy import load_file

from waygraph.registry.embedding.weights import WEIGHTS, BertShape
from waygraph.registry.model.errors import EmbedderRefused

Precision = Literal["int8", "float32"]
Array = NDArray[Any]
Name = str
"""A value inside the graph."""

INPUT, OUTPUT = "input_ids", "vector"
INT8_LIMIT = 64
WORDS_LIMIT = 127
"""Of word embeddings, which no int8 product reads."""
MICROSOFT = "com.microsoft"
OPSETS = {"": 18, MICROSOFT: 1}
IR_VERSION = 9
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh")


def write_bert_onnx(
    weights: Path, shape: BertShape, precision: Precision, target: Path, *, words: Precision = "float32"
) -> None:
    """Write the graph to `target`, its weights to `target`.data beside it, which onnxruntime maps when it loads.

    `words`: of the table of word embeddings, half of a small model's numbers, which int8 makes a quarter as large. In
    an int8 graph the vectors are as near to those of float32 with either.

    Raises EmbedderRefused if the weights do not fit the shape or cannot be read.
    """
    graph = _BertGraph(_read_weights(weights), shape, precision, words)
    try:
        graph.build()
    except KeyError as exc:
        raise EmbedderRefused(f"{weights} has no {exc.args[0]}: it does not fit its config.json") from exc
    onnx.save(graph.model(), target, save_as_external_data=True, location=f"{target.name}.data", size_threshold=4096)


def _read_weights(path: Path) -> dict[str, Array]:
    """Tensors as float32, named as in BertModel: `embeddings.…`, `encoder.layer.0.…`."""
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, TypeError, KeyError) as exc:
        raise EmbedderRefused(f"{path} cannot be read as {WEIGHTS}: {exc}") from exc
    return {name.removeprefix("bert."): tensor.astype(np.float32, copy=False) for name, tensor in tensors.items()}


class _BertGraph:
    """Collects nodes and constants; every method takes and gives names of values of shape (1, tokens, …)."""

    def __init__(self, weights: Mapping[str, Array], shape: BertShape, precision: Precision, words: Precision) -> None:
        if shape.activation not in ACTIVATIONS:
            raise EmbedderRefused(f"activation {shape.activation!r} is not known; known: gelu, gelu_new")
        self._weights, self._shape, self._precision, self._words = weights, shape, precision, words
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._last_axis = self._constant(np.array([-1]))

    def build(self) -> None:
        states = self._embeddings()
        for layer in range(self._shape.layers):
            states = self._layer(states, f"encoder.layer.{layer}.")
        self._op("LpNormalization", self._pool(states), outputs=(OUTPUT,), axis=-1, p=2)

    def model(self) -> Any:
        ids = helper.make_tensor_value_info(INPUT, TensorProto.INT64, [1, "tokens"])
        vector = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, self._shape.hidden])
        graph = helper.make_graph(self._nodes, "bert", [ids], [vector], self._constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    # The encoder, from the bottom up.

    def _embeddings(self) -> Name:
        """Word + position + token type; a single text is all of type 0, which is added to the positions here."""
        token_type = self._weights["embeddings.token_type_embeddings.weight"][0]
        positions = self._weights["embeddings.position_embeddings.weight"] + token_type
        return self._norm_sum(self._word_rows(), self._first_rows(positions), "embeddings.LayerNorm")

    def _word_rows(self) -> Name:
        table = self._weights["embeddings.word_embeddings.weight"]
        if self._words == "float32":
            return self._op("Gather", self._constant(table), INPUT)
        rows, scale, _ = quantize(table.T, WORDS_LIMIT)
        rows_of_words = self._op("Gather", self._constant(rows.T), INPUT)
        scales = self._op("Gather", self._constant(scale[:, None]), INPUT)
        return self._op("Mul", self._op("Cast", rows_of_words, to=TensorProto.FLOAT), scales)

    def _first_rows(self, table: Array) -> Name:
        """The first `tokens` rows of the table."""
        tokens = self._op("Shape", INPUT, start=1, end=2)
        start, axis = self._constant(np.array([0])), self._constant(np.array([1]))
        return self._op("Slice", self._constant(table[None]), start, tokens, axis)

    def _layer(self, states: Name, prefix: str) -> Name:
        attention = self._linear(self._attention(states, f"{prefix}attention.self."), f"{prefix}attention.output.dense")
        states = self._norm_sum(attention, states, f"{prefix}attention.output.LayerNorm")
        # In the tanh form, from which gelu differs by 3e-4, and quantization by 1e-2.
        kind = "Gelu" if (self._shape.activation, self._precision) == ("gelu", "float32") else "FastGelu"
        inner = self._op(kind, self._linear(states, f"{prefix}intermediate.dense"), domain=MICROSOFT)
        outer = self._linear if self._precision == "float32" else self._linear_by_token
        return self._norm_sum(outer(inner, f"{prefix}output.dense"), states, f"{prefix}output.LayerNorm")

    def _attention(self, states: Name, prefix: str) -> Name:
        triple = self._linear(states, *(f"{prefix}{part}" for part in ("query", "key", "value")))
        parts = tuple(self._fresh(f"{prefix}{part}") for part in ("q", "k", "v"))
        self._op("Split", triple, outputs=parts, axis=-1, num_outputs=3)
        return self._op("MultiHeadAttention", *parts, domain=MICROSOFT, num_heads=self._shape.heads)

    def _pool(self, states: Name) -> Name:
        """(1, tokens, hidden) → (1, hidden)."""
        if self._shape.pooling == "mean":
            return self._op("ReduceMean", states, self._constant(np.array([1])), keepdims=0)
        return self._op("Gather", states, self._constant(np.array(0)), axis=1)

    def _norm_sum(self, one: Name, other: Name, weights: str) -> Name:
        """Layer norm of left + right."""
        gain, shift = (self._constant(self._weights[f"{weights}.{part}"]) for part in ("weight", "bias"))
        total = self._op("Add", one, other)
        return self._op("LayerNormalization", total, gain, shift, epsilon=self._shape.epsilon)

    def _linear(self, value: Name, *layers: str) -> Name:
        """value · W + b, of several layers side by side."""
        weight = np.concatenate([self._weights[f"{layer}.weight"].T for layer in layers], axis=1)
        bias = np.concatenate([self._weights[f"{layer}.bias"] for layer in layers])
        if self._precision == "float32":
            return self._op("Add", self._op("MatMul", value, self._constant(weight)), self._constant(bias))
        return self._quantized_product(value, weight, bias)

    def _linear_by_token(self, value: Name, layer: str) -> Name:
        """value · W + b, quantized after each token is scaled to a largest value of 1.

        One scale serves all tokens of a product. Behind the activation a few tokens are far larger than the rest
        and would leave the others with few of the 256 steps.
        """
        largest = self._op("ReduceMax", value, self._last_axis)
        largest = self._op("Max", largest, self._constant(np.array(1e-6, np.float32)))
        product = self._quantized_product(self._op("Div", value, largest), self._weights[f"{layer}.weight"].T)
        return self._op("Add", self._op("Mul", product, largest), self._constant(self._weights[f"{layer}.bias"]))

    def _quantized_product(self, value: Name, weight: Array, *bias: Array) -> Name:
        constants = (self._constant(array) for array in (*quantize(weight), *bias))
        return self._op("DynamicQuantizeMatMul", value, *constants, domain=MICROSOFT)

    # Nodes and constants.

    def _op(self, kind: str, *inputs: Name, outputs: tuple[Name, ...] = (), domain: str = "", **options: Any) -> Name:
        """Add a node and return its first output."""
        outputs = outputs or (self._fresh(kind),)
        self._nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **options))
        return outputs[0]

    def _constant(self, array: Array) -> Name:
        name = self._fresh("constant")
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _fresh(self, stem: str) -> Name:
        return f"{stem}.{len(self._nodes)}.{len(self._constants)}"


def quantize(weight: Array, limit: int = INT8_LIMIT) -> tuple[Array, Array, Array]:
    """Symmetric int8 per column: (int8 of the weight's shape, float32 scales, int8 zeros), one per column.

    weight ≈ quantized · scale, |quantized| ≤ limit.
    """
    scale = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / np.float32(limit)
    integers = np.clip(np.rint(weight / scale), -limit, limit).astype(np.int8)
    return integers, scale.astype(np.float32), np.zeros(scale.shape, np.int8)
