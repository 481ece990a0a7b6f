"""What a service takes and gives at most: its own checks, and what its client asks for."""

MAX_PART = 1000
"""Of a list, or of matches, in one answer."""
MAX_ID_CHARS = 256
"""Of an agent's id, of a call name."""
MAX_NAMES = 1000
"""Of what is approved at once, and of the values of a filter."""
MAX_NAME_CHARS = 512
"""Of a source's name, a tag, a group."""
