"""The core: graph, index, routing; what a program needs of it, `waygraph` exports."""
