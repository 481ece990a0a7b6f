"""What a router learns from: which candidates are near each other."""
