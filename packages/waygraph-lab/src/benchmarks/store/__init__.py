"""The embedded store: what a change costs as a registry grows, and what kills and flipped bits do to it.

Everything runs in processes of its own over the command line and `waygraph.registry.registry.Registry`, so that any
version of the store can be measured.
"""
