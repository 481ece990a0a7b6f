"""One reader for each kind of document."""
