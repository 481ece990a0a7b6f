"""`python -m waygraph`: the command `waygraph`."""

import sys

from waygraph.api.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
