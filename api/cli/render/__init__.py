"""How answers are printed: on a terminal, in a pipe, as JSON."""
