"""`python -m waygraph`: the command `waygraph`."""

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 12):  # noqa: UP036 - an older one cannot read the rest
        sys.exit(f"error: waygraph needs Python 3.12 or newer; this is {sys.version.split()[0]}")
    from waygraph.api.cli.app import run

    sys.exit(run())
