"""The package's own YAML files."""

from importlib.resources import files
from typing import Any


def read_yaml(name: str) -> Any:
    """`name` is relative to this package."""
    import yaml

    return yaml.safe_load(files(__package__).joinpath(*name.split("/")).read_text(encoding="utf-8"))
