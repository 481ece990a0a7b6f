"""The files of waygraph-minilm, in the folder `model`. Waygraph finds them without importing this."""
