"""`python -m waygraph`: the command `waygraph`."""

import sys

from waygraph.api.cli.app import run

if __name__ == "__main__":
    sys.exit(run())
