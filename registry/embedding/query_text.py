"""What is read of a query: no pasted files, and of literal values what kind of thing they are. Pure.

A URL, a path or an address is a value that some parameter takes. Its letters speak of anything but who could take it:
`/home/ann/weather/list.csv` is no request for a forecast. What counts is that there is a file, and that it is a table.
"""

import re

DATA_URI = re.compile(r"data:[\w/+.-]{0,100}(?:;[\w=.-]{1,100}){0,5};base64,[A-Za-z0-9+/=_-]*", re.ASCII)
BLOB = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
"""Base64 or hex of a file that someone pasted: no words."""

_URL = re.compile(
    r"""(?<![a-z0-9])(?:https?|ftp|wss?)://
    (?:[\w.~%!$&'*+=:\-]{1,200}@)?                      # who, and perhaps a password
    (?:www\.)?([a-z0-9.\-]+(?::\d{1,5})?)               # the host; of ASCII, as are paths: 例 begins the next word
    (?:[/?#](?:[\w.~:/?#\[\]@!$&'()*+=%\-]*[\w/=&%\#+\-])?)?  # without the sentence's own punctuation
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+@(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}\b(?![:/])", re.IGNORECASE)
_FILE = re.compile(r"(?<![\w:/.~])(?:~|\.{0,2})(?:/[\w.\-+@%]{1,255}){1,64}+|(?<!\w)[A-Za-z]:\\[^\s\"'<>|]{1,1000}")
_EXTENSION = re.compile(r"\.([A-Za-z]\w{0,4})$")
_UUID = r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
_IDENTITY = re.compile(rf"{_UUID}|\b(?=[a-f]{{0,64}}\d)[0-9a-f]{{16,64}}\b", re.IGNORECASE)
_SHORTEST_IDENTITY = 16


def query_text(text: str, *, literals: bool = False) -> str:
    """The query without pasted files (data URIs, base64 or hex of 200 characters or more), blanks collapsed.

    A URL becomes its host and `web page`, the path of a file `file` and its extension, an e-mail address `email
    address`, a UUID or a long hexadecimal number `ID`; with `literals` they stay as they are.
    """
    text = BLOB.sub(" ", DATA_URI.sub(" ", text))
    return " ".join((text if literals else _kinds(text)).split())


def _kinds(text: str) -> str:
    # Most queries hold none of these: a sign that each must have is looked for first.
    if "://" in text:
        text = _URL.sub(r" \1 web page ", text)
    if "@" in text:
        text = _EMAIL.sub(" email address ", text)
    if "/" in text or "\\" in text:
        text = _FILE.sub(_file, text)
    longest = max(map(len, text.split()), default=0)
    return _IDENTITY.sub(" ID ", text) if longest >= _SHORTEST_IDENTITY else text


def _file(path: re.Match[str]) -> str:
    """A path without extension stays: it may be a folder, or the name of an operation, as in OpenAPI."""
    # A sentence may end behind it.
    extension = _EXTENSION.search(path.group().rstrip(".,;:"))
    return f" file {extension.group(1)} " if extension else path.group()
