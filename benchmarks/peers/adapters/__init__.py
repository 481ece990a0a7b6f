"""One file a peer: how its own public calls take the catalogue in and answer with agents."""
