"""How an agent is reached, with references in place of secrets: no value of a variable or header goes further.

Sources write launches in many ways, so what counts is the form and not the field: every string is read as a command
line, a URL, a header or JSON, whichever it is. In doubt a value becomes a reference, since a name that is asked for
again costs less than a secret that is stored.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

# Addresses that are keys themselves: hosts of MCP servers hand out `https://host/s/NjQ4OTcwYWItZTFhMi/mcp`.
#
# What a person's own config or command line has of that kind is a secret, and is found again there. What others
# publish, such as an agent's card, is none, and would be lost: so this is no part of `references_only`.


REFERENCE = "${path_key}"
_PATH = re.compile(r"(?<=://)([^\s/?#]*)(/[^\s?#\"']*)")
_SEGMENT = re.compile(r"(?<=/)[\w%~-]{16,}(?:\.[\w%~-]{16,}){0,2}={0,2}(?=/|$)")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_LONG_PIECE = re.compile(r"[A-Za-z0-9]{16,}")
_DIGIT_BESIDE_LETTER = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_FEWEST_CHANGES = 4


def without_path_keys(text: str) -> str:
    """Any text, with a reference for each part of an address's path that looks like a key."""
    return _PATH.sub(lambda match: match[1] + _SEGMENT.sub(_reference_text, match[2]), text)


def path_keys(text: str) -> frozenset[str]:
    """Those parts."""
    segments = [segment for match in _PATH.finditer(text) for segment in _SEGMENT.findall(match[2])]
    return frozenset(segment for segment in segments if _is_key(segment))


# Tokens that no flag and no name announces. The prefixes are those of services that hand out keys; what has none is a
# secret if it is made by chance and an argument of its own. Package names and paths change little between kinds of
# characters.


_TOKEN = re.compile(
    r"(?<![\w-])(?:(?:sk-|glpat-|xox[abeprs]-|xapp-|pypi-|gh[opsur]_|github_pat_|hf_|npm_|[rsp]k_(?:live|test)_|gsk_"
    r"|shp(?:at|ss)_|dop_v1_|lin_api_|figd_|tvly-|pplx-|xai-|ntn_|secret_|wg_|ya29\.|SG\.|AKIA|ASIA|AIza|r8_)"
    r"(?=[\w.-]*?[A-Za-z0-9]{16})(?=[A-Za-z_.-]*\d)[\w.-]+"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)
_RANDOM = re.compile(r"[\w.~+=-][\w.~+/=-]{19,}")
_HEX = re.compile(r"(?i)(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{32,}")
_KIND_CHANGE = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_RANDOM_CHANGES = 0.45
"""So many changes a character, between small letters, capitals and digits. Of base 62 by chance .62 are expected, of
words written together (`GoogleSheetsServer2`) less than .35."""


def _is_random(argument: str) -> bool:
    """Whether an argument as a whole looks made by chance: a UUID, long hexadecimal digits, or base 62 or 64."""
    if not _RANDOM.fullmatch(argument) or argument.startswith(("-", "./", "../", "~/")):
        return False
    pieces = [piece for piece in _LONG_PIECE.findall(argument) if len(piece) >= 20]
    changes = (len(_KIND_CHANGE.findall(piece)) / len(piece) for piece in pieces)
    return _is_key(argument) or bool(_HEX.fullmatch(argument)) or any(each >= _RANDOM_CHANGES for each in changes)


def _reference_text(match: re.Match[str]) -> str:
    return REFERENCE if _is_key(match[0]) else match[0]


def _is_key(segment: str) -> bool:
    """Words, names and versions change little between letters and digits; what is made by chance does all the time."""
    changes = (len(_DIGIT_BESIDE_LETTER.findall(piece)) for piece in _LONG_PIECE.findall(segment))
    return bool(_UUID.fullmatch(segment)) or any(number >= _FEWEST_CHANGES for number in changes)


_NAME = r"(?>env:\w+|input:[\w.-]+|[\w.]+)"
_REFERENCE = rf"\$\{{{_NAME}\}}"
_REFERENCES = re.compile(rf"(?i)\s*(?:(?:bearer|basic|token|apikey)\s+)?{_REFERENCE}(?:[\s:]*{_REFERENCE})*\s*")
# `${TOKEN:-abc}` and its kin. The second form is one whose end cannot be told: all that follows may be the default.
_DEFAULT = re.compile(rf"\$\{{({_NAME})(?![\w.}}])(?:{_REFERENCE}|[^{{}}])*\}}")
_MOST_LEVELS = 20
"""So deep are defaults within defaults followed."""
_OPEN_DEFAULT = re.compile(rf"(?s)\$\{{({_NAME})(?![\w.}}]).*")

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset("auth creds dsn jwt key keys oauth otp pass pat pats pin pwd sid sig".split())
_SECRET_STEMS = re.compile(
    r"token(?!i[sz])|secret|passw|passphrase|credential|api_?key|accesskey|privatekey|secretkey"
    r"|bearer|cookie|session|sessid|authorization|authentication|signature|connection_?str|connstr"
)
_PLAIN_ENDS = frozenset("type uri url".split())
_COUNTS = frozenset("max min num".split())
_MAPS = re.compile(
    r"(?i)(?:.*[^a-z])?(?:env|envs|environments?|vars|variables)|.*(?:headers?|cookies?|env_?va(?:rs|riables))"
    r"|environment_?variables|query|(?:query|search)_?param(?:eter)?s|.*[a-z](?-i:Env|Environment|Vars|Variables)"
)

_HEADER_FLAG = re.compile(r"-H|--(?:[\w-]+-)?headers?")
_LOGIN_FLAG = re.compile(r"-u|--(?:proxy-)?user")  # curl's `-u name:password`
_JOINED_LOGIN = re.compile(r"(?s)(--(?:proxy-)?user=)(.*:.*)")
_VARIABLE_FLAG = re.compile(r"-e|--env|--environment|--build-arg|--set-env-vars")
_JOINED_HEADER = re.compile(r"(?s)(-H(?=[^=]*:)|--(?:[\w-]+-)?headers?=)(.+)")
_JOINED_VARIABLE = re.compile(r"(?s)(-e(?=[A-Z_]\w*=)|--(?:env|environment|build-arg|set-env-vars)=)(.+)")
# A secret may start with a dash; only what is plainly the next flag is none.
_LONG_FLAG = re.compile(r"--[a-z]+(?:-[a-z]+)*(?:=.*)?")
_ASSIGNMENT = re.compile(r"(?s)(-{0,2}[A-Za-z_][\w.-]*)(=)(.*)")
_HEADER = re.compile(r"""(?s)(\s*["'{]*[\w-]+["']?)(\s*[:=]\s*)(.*)""")
_VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_NAME_ALONE = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)*")
_LABEL = re.compile(r"[\w.-]+")

# A password may hold `/`, `?` and `#` unescaped: then what follows the colon is no port.
_USER = r"(?:\$\{[^}\s]*\}|[^\s/@?#:\[])"
_LOGIN = rf"(?:([^\s/?#]*|{_USER}{{0,256}}:(?!(?:\d*|\$\{{[^}}\s]*\}})(?:[/?#\s]|$))\S{{0,256}})@)?"
_URL = re.compile(rf"//{_LOGIN}([^\s/?#]*)((?:/(?!/)|[^\s/?#])*)(\?[^\s#]*)?(#\S*)?")
_USER_AND_PASSWORD = re.compile(r"(?s)((?:\$\{[^}]*\}|[^:])*)(:?)(.*)")
_BEARER = re.compile(r"""(?i)\b(bearer)(\s+)([^\s"']+)""")
_PAIR_NAME = re.compile(r"""(?<![\w./-])([\w.-]+)["']?\s*([=:])\s*""")
_PAIR_VALUES = {
    "=": re.compile(r"""(?s)"(?:\\.|[^"\\])*"?|'[^']*'?|[^\s;]+"""),
    ":": re.compile(r"""(?s)"(?:\\.|[^"\\])*"?|'[^']*'?|[^\n"']+"""),  # a header's value may hold spaces
}
_SHELL_WORD = re.compile(r"""(?s)(?:"(?:\\.|[^"\\])*"?|'[^']*'?|\\[^\r\n]|[^\s"'\\])+""")
_PLAIN_WORD = re.compile(r"\S+")


def references_only(transport: Mapping[str, object]) -> dict[str, object]:
    """The same launch or address, each value that may be a secret replaced by a reference to its name.

    `{"env": {"TOKEN": "abc"}}` becomes `{"env": {"TOKEN": "${TOKEN}"}}`. Done twice it changes nothing more.
    Raises ValueError, whose text may hold the secret, if a URL cannot be read.
    """
    return _object(transport)


# -- values by their field -------------------------------------------------------------------------


def _object(fields: Mapping[str, object]) -> dict[str, object]:
    label = _label(fields)
    return {name: _field(str(name), value, label) for name, value in _told_names(fields)}


def _told_names(fields: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """A field's name may itself be a URL with a login."""
    for name, value in fields.items():
        yield _text(name) if isinstance(name, str) else name, value


def _field(name: str, value: object, label: str) -> object:
    if label and name.casefold() == "value":
        # The value of `{"name": "--token", "value": "abc"}`, as the MCP registry lists arguments and headers.
        if names_secret(label) or _VARIABLE_NAME.fullmatch(label):
            return _hide_values(label, value)
        return _arguments([label, value])[-1]
    if _MAPS.fullmatch(name):
        return _hide_values(name, value)
    if names_secret(name) and value is not None and not isinstance(value, bool):
        return _hide_values(name, value)
    return _clean_value(value)


def _clean_value(value: object) -> object:
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, (list, tuple)):
        return _arguments(value)
    return _text(value) if isinstance(value, str) else value


def _label(fields: Mapping[str, object]) -> str:
    by_name = {str(name).casefold(): value for name, value in fields.items()}
    label = by_name.get("name", by_name.get("key"))
    return label if "value" in by_name and isinstance(label, str) and _LABEL.fullmatch(label) else ""


def _hide_values(name: str, value: object) -> object:
    """Variables, headers or credentials: the names stay, every value becomes a reference."""
    if isinstance(value, Mapping):
        return {key: _hide_values(str(key), item) for key, item in _told_names(value)}
    if isinstance(value, (list, tuple)):
        return [_hidden_item(name, item) for item in value]
    return _reference(name, value)


def _hidden_item(name: str, item: object) -> object:
    """`TOKEN=abc`, `Authorization: abc`, `{"name": "TOKEN", "value": "abc"}`, or a name alone, as docker passes it."""
    if isinstance(item, Mapping) and (label := _label(item)):
        return {key: value if value == label else _hide_values(label, value) for key, value in item.items()}
    if isinstance(item, str) and (pair := _HEADER.fullmatch(item)):
        return _with_reference(pair)
    if isinstance(item, str) and _NAME_ALONE.fullmatch(item) and not names_secret(name):
        return item
    return _hide_values(name, item)


def names_secret(name: str) -> bool:
    """Whether what a field, a header, a flag or a variable of this name holds may be a secret."""
    words = [word.casefold() for word in _WORDS.findall(name)]
    if not words or words[-1] in _PLAIN_ENDS or (words[-1] == "tokens" and words[0] in _COUNTS):
        return False
    return not _SECRET_WORDS.isdisjoint(words) or bool(_SECRET_STEMS.search("".join(words)))


# -- references ------------------------------------------------------------------------------------


def _reference(name: str, value: object) -> str:
    """The value if it is made of references alone, else a reference by the variable's name."""
    reference = _without_defaults(value) if isinstance(value, str) else ""
    if _REFERENCES.fullmatch(reference):
        return reference
    return "${" + ("_".join(re.findall(r"\w+", name)) or "value") + "}"


def _without_defaults(text: str) -> str:
    """`${TOKEN:-abc}` as `${TOKEN}`, from the innermost one outwards; what is nested deeper is no reference."""
    for _ in range(_MOST_LEVELS):
        text, count = _DEFAULT.subn(r"${\1}", text)
        if not count:
            break
    return _OPEN_DEFAULT.sub(r"${\1}", text)


def _with_reference(pair: re.Match[str]) -> str:
    """Name, mark and value, with a reference for the value."""
    name, mark, value = pair.groups()
    return f"{name}{mark}{_reference(name, value)}"


# -- command lines ---------------------------------------------------------------------------------


def _arguments(arguments: Iterable[object]) -> list[object]:
    result: list[object] = []
    before = ""
    for place, argument in enumerate(arguments, start=1):
        safe = _argument(before, argument)
        name = before if before.startswith("-") else f"argument_{place}"
        result.append(_without_chance(name, argument) if safe == argument and isinstance(argument, str) else safe)
        before = argument if isinstance(argument, str) else ""
    return result


def _without_chance(name: str, argument: str) -> str:
    """A reference in place of what was made by chance: the argument, or its value in `--flag=value`."""
    flag, equals, value = argument.partition("=")
    if equals and flag.startswith("-") and _is_random(value):
        return f"{flag}={_reference(flag, value)}"
    return _reference(name, argument) if _is_random(argument) else argument


def _argument(before: str, argument: object) -> object:
    """One argument; the flag before it says what it is."""
    takes_secret = before.startswith("-") and _LABEL.fullmatch(before) and names_secret(before.rpartition(".")[2])
    if takes_secret and not _LONG_FLAG.fullmatch(str(argument)):
        return _hide_values(before, argument)
    if not isinstance(argument, str):
        return _clean_value(argument)
    if _HEADER_FLAG.fullmatch(before):
        return _header(argument)
    if _LOGIN_FLAG.fullmatch(before) and ":" in argument:
        return _login(argument)
    return _variable(argument) if _VARIABLE_FLAG.fullmatch(before) else _word(argument)


def _header(text: str) -> str:
    if isinstance(headers := _parse_json(text), Mapping):
        return _format_json(_hide_values("header", headers))
    pair = _HEADER.fullmatch(text)
    return _with_reference(pair) if pair else _text(text)


def _word(word: str) -> str:
    """An argument that holds its own name: `--token=abc`, `TOKEN=abc`, `-HAuthorization: abc`; else any text."""
    if _is_json(word):
        return _text(word)
    for form, redact in ((_JOINED_HEADER, _header), (_JOINED_LOGIN, _login), (_JOINED_VARIABLE, _variable)):
        if match := form.fullmatch(word):
            return match[1] + redact(match[2])
    if pair := _ASSIGNMENT.fullmatch(word):
        name, _, value = pair.groups()
        is_secret = names_secret(name.rpartition(".")[2]) or _VARIABLE_NAME.fullmatch(name)
        return _with_reference(pair) if is_secret else f"{name}={_text(value)}"
    pair = _HEADER.fullmatch(word)
    return _with_reference(pair) if pair and names_secret(pair[1]) else _text(word)


def _variable(text: str) -> str:
    pair = _ASSIGNMENT.fullmatch(text)
    return _with_reference(pair) if pair else _word(text)


def _line(text: str) -> str:
    """The words of a shell's command line, spaces and quotes kept as they are."""
    words = _SHELL_WORD
    if (whole := words.fullmatch(text)) and text[0] not in "\"'":
        if not re.search(r"\s", whole[0]):
            return text
        words = _PLAIN_WORD  # an apostrophe, no quote
    before = ""

    def reference_text(match: re.Match[str]) -> str:
        nonlocal before
        inside, put_back = _unquote(match[0])
        safe, before = str(_argument(before, inside)), inside
        return match[0] if safe == inside else put_back(safe)

    return words.sub(reference_text, text)


def _unquote(word: str) -> tuple[str, Callable[[str], str]]:
    """What stands between the quotes, and how to put it back there."""
    if (mark := word[0]) not in "\"'":
        return word, str
    if mark == '"' and isinstance(inside := _parse_json(word), str):
        return inside, _format_json
    end = mark if len(word) > 1 and word.endswith(mark) else ""
    return word[1 : len(word) - len(end)], lambda content: f"{mark}{content}{end}"


# -- texts -----------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Any text: JSON by its fields, else with its URLs, pairs and command-line words made safe."""
    if _is_json(text):
        document = _parse_json(text)
        safe = _clean_value(document)
        return text if safe == document else _format_json(safe)
    text = _URL.sub(_address, _without_defaults(text))
    text = _BEARER.sub(lambda match: f"{match[1]}{match[2]}{_reference('token', match[3])}", text)
    return _line(_TOKEN.sub("${token}", _without_pairs(text)))


def _parse_json(text: str) -> object:
    """The JSON in a text; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") and _parse_json(text) is not None


def _format_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _without_pairs(text: str) -> str:
    """`Password=abc` or `token: abc` amid a text, as connection strings have them."""
    result, at = "", 0
    while match := _PAIR_NAME.search(text, at):
        name, mark = match.groups()
        result, at = result + text[at : match.end()], match.end()
        if names_secret(name.rpartition(".")[2]) and (value := _PAIR_VALUES[mark].match(text, at)):
            result, at = result + _reference(name, value[0]), value.end()
    return result + text[at:]


def _address(match: re.Match[str]) -> str:
    """Login and query values as references, since keys are often passed there; no fragment."""
    urlsplit(match[0])  # refuses what is no host
    login, host, path, query, _ = match.groups()
    parameters = "&".join(_query_part(part) for part in (query or "")[1:].split("&") if part)
    return f"//{'' if login is None else _login(login) + '@'}{host}{path}{'?' if parameters else ''}{parameters}"


def _login(login: str) -> str:
    user, colon, password = _USER_AND_PASSWORD.fullmatch(login).groups()  # type: ignore[union-attr]
    return _reference("USER", user) + colon + (_reference("PASSWORD", password) if colon else "")


def _query_part(part: str) -> str:
    name, equals, value = part.partition("=")
    return f"{name}={_reference(name, value)}" if equals else _reference("query", part)
