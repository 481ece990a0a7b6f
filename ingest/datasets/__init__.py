"""Datasets for evaluation: one module a format."""
