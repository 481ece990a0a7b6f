"""Paths as a person wrote them."""

import os
from pathlib import Path

from waygraph.registry.errors import InvalidSetting


def as_written(path: str | os.PathLike[str]) -> Path:
    """`~` and `~name` stand for homes. Raises InvalidSetting for the home of nobody, and for what is no text."""
    try:
        os.fspath(path).encode()
        return Path(path).expanduser()
    except UnicodeEncodeError:
        raise InvalidSetting(f"{os.fspath(path)!r} cannot be used: its name is no UTF-8 text") from None
    except RuntimeError as exc:
        raise InvalidSetting(f"{os.fspath(path)!r}: nobody here has such a home") from exc
