"""Datasets for evaluation: one module a format. `read_dataset` finds the format from the files in a folder."""

from waygraph.ingest.datasets.reading import read_dataset

__all__ = ["read_dataset"]
