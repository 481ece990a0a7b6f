"""How good rankings are, and how sure that is."""
