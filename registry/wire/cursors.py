"""Cursors: where a list goes on, in a text that says nothing to whoever carries it."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from waygraph.registry.errors import InvalidQuery


def cursor(after: str) -> str:
    """Of the id after which the list goes on; empty if it does not."""
    return urlsafe_b64encode(after.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def after(text: str) -> str:
    """The id that a cursor stands for. Raises InvalidQuery for a text that is none."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        found = urlsafe_b64decode(padded).decode("utf-8", "surrogatepass")
    except ValueError:
        found = ""
    if cursor(found) != text:  # the decoder passes over what is no base64
        raise InvalidQuery("this cursor is not one that a list ended with")
    return found
