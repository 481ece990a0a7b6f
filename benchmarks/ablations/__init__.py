"""Ideas for a better default, each tried on every dataset: those that won and those that did not."""
