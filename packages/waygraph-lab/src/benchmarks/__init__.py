"""Measurements of Waygraph: `python -m benchmarks [NAME…]`. What each number means is in evals/README.md."""
