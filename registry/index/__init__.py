"""What is searched: the protocol, the analysis of text, and an index for each engine."""
