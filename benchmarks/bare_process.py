"""The least that a process with this model must do: imports numpy, onnxruntime and tokenizers, loads the model.

The session's options are those of Waygraph's own embedder.

Run as a script, `bare_process.py GRAPH TOKENIZER`; imports nothing of Waygraph.
"""

import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


def main(graph: str, tokenizer: str) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    loaded = Tokenizer.from_file(tokenizer)
    print(np.__version__, [node.name for node in session.get_inputs()], loaded.get_vocab_size())


if __name__ == "__main__":
    main(*sys.argv[1:])
