"""`python -m waygraph`: the command `waygraph`."""

from waygraph.api.cli.app import main

if __name__ == "__main__":
    main()
