"""The participles that names of the product still are: none may come anew, and the list only gets shorter.

`python -m tests.architecture.participles` writes the list.
"""

from pathlib import Path
from typing import Final

from tests.architecture.names import participle_counts

LIST: Final = Path(__file__).with_suffix(".txt")


def known_participles() -> dict[str, int]:
    """`file name` → how often it may be bound there."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {name: int(count) for line in lines for name, _, count in [line.rpartition(" ")]}


def new_participles() -> list[str]:
    known = known_participles()
    return [name for name, count in participle_counts().items() if count > known.get(name, 0)]


def main() -> None:
    LIST.write_text("".join(f"{name} {count}\n" for name, count in participle_counts().items()), encoding="utf-8")


if __name__ == "__main__":
    main()
