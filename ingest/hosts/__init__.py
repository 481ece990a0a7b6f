"""Hosts of language models on this machine: where each keeps its servers, and how Waygraph comes among them."""
