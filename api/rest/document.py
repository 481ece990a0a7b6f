"""The OpenAPI document by itself, without a registry: `docs/openapi.json` is it."""

import json
from functools import cache
from typing import Any

from waygraph.api.rest.app import create_app


@cache
def document() -> dict[str, Any]:
    """What `/openapi.json` tells."""
    service: Any = None  # the endpoints ask for it when they are called
    return create_app(service).openapi()


def main() -> None:
    print(json.dumps(document(), indent=1, ensure_ascii=False))  # noqa: T201 - `make docs` takes it


if __name__ == "__main__":
    main()
