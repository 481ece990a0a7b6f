"""Secrets taken out of text that is about to be logged: messages of libraries, texts of exceptions, paths.

Nothing of ours logs a header, a body or a query string. This is for text that others wrote, where a key may stand.
"""

import re
from collections.abc import Iterable

HIDDEN = "***"

_KEY = re.compile(
    r"(?P<own>wg_[0-9A-Za-z]+_)[\w-]+"  # the id of a key of ours is public, what follows is not
    r"|(?<![\w-])(?P<of_others>sk-|glpat-|xox[abeprs]-)[\w-]{8,}"  # OpenAI and others, GitLab, Slack
    r"|(?<!\w)(?P<plain>gh[opsur]_|github_pat_|hf_|npm_|[rs]k_(?:live|test)_)[0-9A-Za-z]{16}\w*"
    r"|(?<!\w)(?P<of_clouds>AKIA|ASIA|AIza)[\w-]{16,}"
    r"|(?<![\w-])eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?"  # a JSON web token
    r"|(?s:(?P<pem>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?:-----END|\Z))"
)
_NAMES = (
    r"(?<![0-9A-Za-z])"  # a name may end in it: `db_password`, `X-Client-Secret`
    r"(?:(?:proxy-)?authorization|x-api-key|(?:api|access|private|secret)[_-]?key|(?:set-)?cookie"
    r"|passw(?:or)?d|passphrase|(?:client)?secret|(?:access|auth|bearer|id|refresh|session)?token)\b"
)
_IN_TEXT = re.compile(
    rf"(?P<named>{_NAMES}(?:\\?['\"]?\s*[:=,]\s*b?\\?['\"]|=))(?:(?:bearer|basic)\s+)?[^\s'\"\\,;)]+"
    r"|(?P<header>\b(?:authorization|x-api-key|cookie):\s*)[^\r\n'\"]+"
    r"|(?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/=*-]+"
    r"|(?P<account>://)[^/\s@]+(?=@)"
    r"|(?P<query>\?)[\w.%~-]+=[^\s'\"<>]*",
    re.IGNORECASE,
)
_LEAST_CHARS = 4
"""A shorter text is no secret, and stands in every second word."""


def without_keys(text: str) -> str:
    """The text without what has the form of a key or of a token."""
    return _KEY.sub(_kept, text)


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without keys, tokens, passwords, query strings of URLs, and the secrets that are `known`."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _LEAST_CHARS:
            text = text.replace(secret, HIDDEN)
    return _IN_TEXT.sub(_kept, without_keys(text))


def _kept(found: re.Match[str]) -> str:
    """What says of which kind the secret was, and no more."""
    return next((part for part in found.groups() if part), "") + HIDDEN
