"""What is told of a server that failed: one line, in which no secret of its launch stands."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from waygraph.ingest.manifest.fields import sendable
from waygraph.ingest.manifest.records import Launch, StdioLaunch
from waygraph.ingest.manifest.transport import references_only
from waygraph.registry.model.identity import replace_surrogates

# What is held in confidence, struck out of what a service or server says: it may repeat what it was sent.


STRUCK_TEXT = "***"
_ESCAPED_CHAR = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|/)")
"""What writers of JSON need not escape, and some do: `+` as `\\u002B` (.NET), `/` as `\\/` (PHP). A run of backslashes
is read from its begin alone, else a long one would be read once for each of them."""
_LONG_REFERENCE = re.compile(r"&#(?:0+(?=[0-9])([0-9]{0,8})|([0-9]{8}))[0-9]*")
"""A character's number in HTML with zeros before it, or past every character. Python reads no 5,000 digits."""


def strike_secrets(text: str, secrets: Sequence[str]) -> str:
    """The text without any of `secrets`, which come longest first.

    Where one stands in the escapes of JSON, HTML or URLs, the whole text comes without such escapes.
    """
    text = _without(text, secrets)
    if not secrets or not any(mark in text for mark in "\\&%"):
        return text
    for read in (_without_json_escapes, _without_html_escapes, unquote):
        plain = read(text)
        if any(secret in plain for secret in secrets):
            text = _without(plain, secrets)
    return text


def struck_json(data: Any, secrets: Sequence[str]) -> Any:
    """Parsed JSON with `secrets` struck out of every text, name and number."""
    if isinstance(data, str):
        return strike_secrets(data, secrets)
    if isinstance(data, Mapping):
        return {strike_secrets(name, secrets): struck_json(value, secrets) for name, value in data.items()}
    if isinstance(data, list):
        return [struck_json(part, secrets) for part in data]
    if isinstance(data, (int, float)) and any(secret in json.dumps(data) for secret in secrets):
        return STRUCK_TEXT
    return data


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, STRUCK_TEXT)
    return text


def _without_json_escapes(text: str) -> str:
    return _ESCAPED_CHAR.sub(lambda match: chr(int(match[1], 16)) if match[1] else "/", text)


def _without_html_escapes(text: str) -> str:
    return unescape(_LONG_REFERENCE.sub(lambda match: f"&#{match[1] or match[2]}", text))


MOST_CHARS = 300

_SHORTEST, _SHORTEST_PART = 4, 8
"""Shorter values are words like `on`; to strike them would make an error unreadable and hide nothing."""
_COMMON = frozenset("true false none null info debug warn warning error production development".split())
_MARKS = re.compile(r"[=:@/?&\s\"'{},;]+")
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNSEEN_CHARS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


@dataclass(frozen=True, slots=True)
class Discretion:
    """Strikes out of foreign text what the launch holds in confidence."""

    secrets: tuple[str, ...] = field(default=(), repr=False)
    logins: tuple[str, ...] = field(default=(), repr=False)
    """Those of them that are surely a login, by their name."""
    later_secrets: set[str] = field(default_factory=set, repr=False, compare=False)
    """What came to be held while it ran, such as a token of OAuth."""

    def learn(self, *secrets: str | None) -> None:
        self.later_secrets.update(form for secret in secrets if secret for form in _spellings(secret))

    def line(self, text: str, most_chars: int = MOST_CHARS) -> str:
        """One line, nothing in it that a terminal would obey; of a longer text the beginning and the end."""
        plain = self.strike(" ".join(_UNSEEN_CHARS.sub(" ", ESCAPES.sub("", text)).split()))
        return shorten(plain, most_chars)

    def excerpt(self, text: str, most_chars: int) -> str:
        """Its lines, nothing in them that a terminal would obey; of a longer text the beginning and the end."""
        lines = (_UNSEEN_CHARS.sub(" ", ESCAPES.sub("", line)).rstrip() for line in text.expandtabs(4).splitlines())
        return shorten(self.strike("\n".join(lines)), most_chars)

    def strike(self, text: str) -> str:
        """The text without what is held in confidence, and otherwise as it is, but for halves of characters."""
        return replace_surrogates(strike_secrets(text, self._secrets_in_order))

    @property
    def _secrets_in_order(self) -> Sequence[str]:
        """Longest first, so that one that holds another is struck as a whole."""
        return (
            sorted((*self.later_secrets, *self.secrets), key=len, reverse=True) if self.later_secrets else self.secrets
        )

    def redact_result(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without logins that the server was sent: whoever calls a tool has not been told them. Else as it came."""
        secrets = sorted((each for each in (*self.later_secrets, *self.logins) if len(each) >= _SHORTEST_PART), key=len)
        return struck_json(result, secrets[::-1]) if secrets else result

    def redact_data(self, data: object, most_chars: int) -> object:
        """JSON without what is held in confidence; a note in its place if it is longer than that, or no JSON."""
        try:
            text = json.dumps(data, ensure_ascii=False)
            if len(text) <= most_chars:
                return sendable(struck_json(data, self._secrets_in_order))
            return f"({len(text):,} characters, which is too long to be handed on)"
        except (TypeError, ValueError, RecursionError):
            return "(data that cannot be read)"


def shorten(text: str, most_chars: int) -> str:
    """The beginning and the end of a text that is longer: there stand what happened and what to do."""
    if len(text) <= most_chars:
        return text
    end = (most_chars - 3) // 3
    return f"{text[: most_chars - 3 - end]} … {text[len(text) - end :]}"


def discretion(launch: Launch) -> Discretion:
    """Of a launch. Secrets come longest first."""
    if isinstance(launch, StdioLaunch):
        secrets = _values(launch.env) | _of_arguments(launch.args)
    else:
        secrets = _of_url(launch.url) | _values(launch.headers)
    secrets |= _values({value: value for value in launch.confidential})
    return Discretion(_sort_spellings(secrets), _sort_spellings(_logins_of(launch)))


def _logins_of(launch: Launch) -> set[str]:
    """Variables and headers whose name says that they hold one, whole, and without the scheme of `Bearer …`."""
    variables = launch.env if isinstance(launch, StdioLaunch) else launch.headers
    logins = {value.strip() for name, value in variables.items() if references_only({name: value}).get(name) != value}
    return logins | {value.partition(" ")[2].strip() for value in logins}


def _sort_spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
    return tuple(sorted(spellings, key=lambda secret: (-len(secret), secret)))


def _spellings(secret: str) -> set[str]:
    """As programs write a value that they complain of: escaped, in a URL, encoded, its white space made one space."""
    return {
        secret,
        secret.lower(),  # as in a host's name
        " ".join(secret.split()),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        escape(secret),
        escape(secret, quote=False),
        quote(secret, errors="replace"),
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
        b64encode(secret.encode("utf-8", "replace")).decode().rstrip("="),
    }


def _values(variables: Mapping[str, str]) -> set[str]:
    """Values of variables or headers, whole and in their longer parts, as in `Bearer …` or `postgres://…`."""
    return {
        part
        for value in variables.values()
        for part in (value.strip(), *_parts(value))
        if len(part) >= _SHORTEST and part.casefold() not in _COMMON
    }


def _of_arguments(args: Iterable[str]) -> set[str]:
    """What the graph would not keep of the command line either."""
    texts = list(args)
    try:
        value = references_only({"args": texts})["args"]
    except (ValueError, RecursionError):
        value = []
    public_texts = list(map(str, value)) if isinstance(value, list) else []
    return _secret_parts(texts, public_texts if len(public_texts) == len(texts) else [""] * len(texts))


def _of_url(url: str) -> set[str]:
    try:
        public_url = references_only({"url": url})["url"]
    except (ValueError, RecursionError):
        public_url = ""
    return _secret_parts([url], [str(public_url)])


def _secret_parts(texts: Iterable[str], public_texts: Iterable[str]) -> set[str]:
    """The parts of each text that are not in what may be told of it."""
    return {
        form
        for text, public in zip(texts, public_texts, strict=True)
        if text != public
        for part in _MARKS.split(text)
        if len(part) >= _SHORTEST and part not in public
        for form in (part, unquote(part))
    }


def _parts(value: str) -> list[str]:
    parts = (*_MARKS.split(value), *value.split())
    return [form for part in parts if len(part) >= _SHORTEST_PART for form in (part, unquote(part))]
