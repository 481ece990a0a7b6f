"""Every error of Waygraph, in one tree.

    WaygraphError
    ├── InvalidQuery            a query that cannot be asked
    ├── UnknownName             an agent, tool, source, recipe … that is not there
    │   └── UnknownRecipe
    ├── RecipeNeedsTexts        the recipe was made for other embedded texts
    ├── InvalidSetting          an environment variable or option out of range
    ├── RegistryError
    │   ├── RegistryNotFound    no registry at that place
    │   ├── RegistryUnusable    damaged, empty, foreign or newer: refused, never overwritten
    │   ├── RegistryLocked      another process writes (retryable)
    │   ├── RegistryClosed
    │   ├── WriteConflict       two transactions met (retryable)
    │   ├── IndexOutdated       it was written while it was asked (retryable)
    │   ├── CopyDiffers         a copy of a registry is not what it was copied from
    │   ├── StorageFailed       the disk is full or refuses writes
    │   │   └── NotPublished    what was written is kept, and not shown yet
    │   ├── ServerUnavailable   the graph server does not answer (retryable)
    │   ├── ServerRefused       wrong password, database, version, or a right is missing
    │   └── EngineError         anything else the engine said
    ├── EmbedderError
    │   ├── EmbedderMismatch    the registry's vectors are another model's
    │   ├── EmbedderUnavailable the endpoint does not answer (retryable)
    │   ├── EmbedderRefused     wrong key, wrong dimension, unknown model
    │   └── ModelNotFound       no weights on this machine
    ├── LanguageModelError
    │   ├── LanguageModelUnavailable  the endpoint does not answer (retryable)
    │   └── LanguageModelRefused      wrong key, unknown model, an answer of another protocol
    │       └── UnfitAnswer           one answer that is not what was asked for: the next may be
    ├── SourceError             a source that cannot be read at all
    ├── UpstreamError
    │   ├── UpstreamUnreachable a server that cannot be started or reached, or went away (retryable)
    │   └── UpstreamRefused     a server that answered with what is no answer, or with no
    │       └── UpstreamAnswered  with an error of the protocol, which it says itself
    ├── CallError
    │   ├── NotRun              nothing was sent to a tool
    │   │   ├── NotCallable     a policy, an approval or the tool's kind stands against it; says how else to reach it
    │   │   ├── NeedsConsent    only a person may let it run, and this host cannot ask one
    │   │   ├── BudgetSpent     a budget of calls is spent; says until when
    │   │   ├── NeedsLogin      the tool acts as its caller, who is not logged in there; says where to log in
    │   │   ├── InvalidArguments  arguments that do not fit the tool's schema, with the place of each fault
    │   │   └── AmbiguousTool   a request that fits several tools, which it names
    │   └── CallTimedOut        no answer within the deadline
    ├── InvalidDataset          a dataset for evaluation that cannot be read, with the place
    ├── MissingExtra            a library that is installed on request only
    ├── MassRemoval             a sync that would remove more than half of a source
    ├── TextDiffers             what is decided on says something else than what was read
    ├── CypherError
    │   ├── CypherRefused       not a read-only statement
    │   ├── CypherFailed        the engine did not accept or finish it
    │   ├── CypherLimit         time or memory ran out
    │   └── CypherBusy          as many statements as are allowed are at work (retryable)
    ├── AccessError
    │   ├── NotAuthenticated    a service does not know who calls
    │   ├── NotAllowed          who calls may not do this, or not see all that it needs
    │   ├── TooManyRequests     more than one caller may ask for in this time (retryable)
    │   ├── TooManySessions     more than one caller may have open (retryable)
    │   ├── KeysUnusable        the file of API keys is damaged, or cannot be read or written
    │   ├── LoginsUnusable      callers' logins cannot be read: no key, another key, or a damaged file
    │   └── IssuerUnavailable   the issuer of tokens does not tell its keys (retryable)
    └── ServiceError
        ├── ServiceUnavailable  a service does not answer, or not in time (retryable)
        ├── ServiceFailed       a service answered with what is not an answer
        ├── ServiceStopping     a write was given up before its commit, since its service stops (retryable)
        └── NeedsRegistry       what a service does not offer: it needs the registry itself

A message says what was seen, what is allowed and what to do; the facts are attributes.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Self

from waygraph.registry.model.installation import install_command

# Which of the known names was probably meant: by letters, and quick among thousands of foreign names.


MOST_CHARS = 300
"""Of a name that is looked for; no name is longer."""


def nearest(name: str, names: Iterable[str], most: int = 1, *, least: float = 0.6) -> list[str]:
    """At most `most` of the known names, at least so like whatever the case, best first, equal ones by name."""
    from rapidfuzz import fuzz, process  # not every process meets a name that is not known

    matches = process.extract(
        name[:MOST_CHARS],
        sorted(names),
        scorer=fuzz.ratio,
        processor=str.casefold,
        limit=most,
        score_cutoff=100 * least,
    )
    return [match for match, _, _ in matches]


def likeness(one: str, other: str) -> float:
    """From 0 to 1: twice the letters that both have in the same order, over the letters of both."""
    from rapidfuzz import fuzz

    return fuzz.ratio(one[:MOST_CHARS], other) / 100


class WaygraphError(Exception):
    """Base of all. `retryable` says whether the same call may succeed later, unchanged."""

    retryable: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross from one process to another, as pools of them send what a task raised."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[WaygraphError], args: tuple[object, ...], facts: dict[str, object]) -> WaygraphError:
    """Without its `__init__`, which takes the facts, not the message that it made of them."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class _AtPlace(Exception):
    """A fault of what is at a place, which is no path. `_text`: the message, with both in braces."""

    _text = "{}: {}"

    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(self._text.format(place, reason))


class _OfFile(Exception):
    """The same of a file."""

    _text = ""

    def __init__(self, path: str | Path, reason: str) -> None:
        self.path, self.reason = str(path), reason
        super().__init__(self._text.format(path, reason))


class InvalidQuery(WaygraphError):
    pass


class InvalidSetting(WaygraphError):
    pass


class UnknownName(WaygraphError):
    """A name that is not there; `nearest` holds what was probably meant, best first.

    A short list of what is known is told, unless `known` is only `some` of it.
    """

    def __init__(self, noun: str, name: str, names: Iterable[str], *, some: bool = False, hint: str = "") -> None:
        known_names = sorted(names)
        self.noun, self.name = noun, name
        self.nearest = tuple(nearest(name, known_names, 3))
        listing = f"; known: {', '.join(known_names)}" if 0 < len(known_names) <= 12 and not some else ""
        suggestion = f" Did you mean {' or '.join(repr(n) for n in self.nearest)}?" if self.nearest else ""
        super().__init__(f"{noun} {name!r} is not known{listing}.{suggestion}{' ' + hint if hint else ''}")


class UnknownRecipe(UnknownName):
    def __init__(self, name: str, names: Iterable[str]) -> None:
        super().__init__("recipe", name, names)


class RecipeNeedsTexts(WaygraphError):
    def __init__(self, recipe: str, *, needs: str, has: str) -> None:
        self.recipe, self.needs, self.has = recipe, needs, has
        super().__init__(
            f"recipe {recipe!r} needs vectors of {needs} texts, this registry holds {has} ones. "
            f"Run `waygraph reindex --texts {needs}`, or choose another recipe."
        )


class RegistryError(WaygraphError):
    pass


class RegistryNotFound(RegistryError):
    """`writer`: who is about to make it, if anybody."""

    def __init__(self, path: str | Path, *, writer: str = "") -> None:
        self.path, self.writer = str(path), writer
        advice = f"{writer} is making one: ask again" if writer else "`waygraph ingest SOURCE` creates one"
        if self.path == ":memory:":
            advice = "`waygraph.ingest.ingest` brings sources into one in memory"
        super().__init__(f"there is no registry at {self.path}{' yet' if writer else ''}. {advice}.")


class RegistryUnusable(_OfFile, RegistryError):
    _text = "{} cannot be used as a registry: {}"


class RegistryLocked(RegistryError):
    retryable = True

    def __init__(self, path: str | Path, *, holder: str, waited_s: float, setting: str = "") -> None:
        self.path, self.holder, self.waited_s = str(path), holder, waited_s
        longer = f", or raise {setting}" if setting else ""
        super().__init__(f"{self.path} is being written by {holder}; gave up after {waited_s:g} s. Try again{longer}.")


class RegistryClosed(RegistryError):
    def __init__(self) -> None:
        super().__init__("this registry was closed; open it again with Registry.open(…)")


class WriteConflict(RegistryError):
    retryable = True


class IndexOutdated(RegistryError):
    retryable = True

    def __init__(self) -> None:
        super().__init__("the registry was written while it was asked; ask again")


class CopyDiffers(RegistryError):
    """`differences` holds a line for each part that is not the same."""

    def __init__(self, place: str, differences: Iterable[str]) -> None:
        self.place, self.differences = place, tuple(differences)
        super().__init__(f"what is at {place} is not what was to be copied: {'; '.join(self.differences)}")


class StorageFailed(RegistryError):
    pass


class NotPublished(StorageFailed):
    """To write it again changes nothing: it is shown as soon as the search index can be written."""

    def __init__(self, path: str | Path, reason: str) -> None:
        self.path = str(path)
        super().__init__(f"{self.path}: what was written is kept, and shown as soon as it can be: {reason}")


class ServerUnavailable(_AtPlace, RegistryError):
    retryable = True
    _text = "{} does not answer: {}"


class ServerRefused(_AtPlace, RegistryError):
    pass


class EngineError(RegistryError):
    pass


class EmbedderError(WaygraphError):
    pass


class EmbedderMismatch(EmbedderError):
    def __init__(self, *, has: str, wants: str) -> None:
        self.has, self.wants = has, wants
        super().__init__(
            f"this registry's vectors were made by {has}, the embedder now chosen is {wants}. "
            "Choose the former with --embedder / WAYGRAPH_EMBEDDER, or run `waygraph reindex` to embed all texts anew."
        )

    @classmethod
    def of_lengths(cls, embedder: str, *, has: int, wants: int) -> "EmbedderMismatch":
        """One name, but vectors of `has` numbers before and of `wants` now: another model answers to it."""
        return cls(has=f"{embedder} ({has} numbers each)", wants=f"{embedder} ({wants} numbers each)")


class EmbedderUnavailable(EmbedderError):
    retryable = True


class EmbedderRefused(EmbedderError):
    pass


class ModelNotFound(EmbedderError):
    pass


class LanguageModelError(WaygraphError):
    pass


class LanguageModelUnavailable(LanguageModelError):
    retryable = True


class LanguageModelRefused(LanguageModelError):
    pass


class UnfitAnswer(LanguageModelRefused):
    pass


class SourceError(WaygraphError):
    """A source that cannot be read at all. `where` names the file, `pointer` the JSON pointer in it."""

    def __init__(self, where: str, reason: str, *, pointer: str = "") -> None:
        self.where, self.pointer, self.reason = where, pointer, reason
        super().__init__(f"{where}{' at ' + pointer if pointer else ''}: {reason}")


class UpstreamError(WaygraphError):
    """An MCP server, or another agent's endpoint, that gave no answer. `reason` is one line and holds no secret."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def again(self, reason: str = "") -> Self:
        """The same fault for somebody else to raise, in other words if they are given: an error is raised once."""
        other = copy(self)
        if reason:
            other.reason, other.args = reason, (reason,)
        return other


class UpstreamUnreachable(UpstreamError):
    retryable = True


class UpstreamBusy(UpstreamUnreachable):
    """It did nothing, and takes the call later. `retry_after_s`: in so many seconds; None: it does not say when."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        when = "later" if retry_after_s is None else f"in {retry_after_s:g} s"
        super().__init__(f"{reason}; it did nothing: call again {when}")


class UpstreamRefused(UpstreamError):
    pass


class UpstreamAnswered(UpstreamRefused):
    """`code`, `message` and `data` are the server's own words, with what is held in confidence struck out.

    `retryable` where the same call would be made in another way.
    """

    def __init__(self, code: int, message: str, data: object = None, *, retryable: bool = False) -> None:
        self.code, self.message, self.data, self.retryable = code, message, data, retryable
        super().__init__(f"answered with error {code}: {message}")


class CallError(WaygraphError):
    """A tool that was not run, or gave no answer."""


class NotRun(CallError):
    """Nothing was sent to any tool."""


class NotCallable(NotRun):
    """`reason` says what stands against it and what to do. `how`: the call that runs it all the same."""

    def __init__(self, tool: str, reason: str, *, how: str = "") -> None:
        self.tool, self.reason, self.how = tool, reason, how
        super().__init__(f"{tool!r} was not run: {reason}; {how}" if how else f"{tool!r} cannot be called: {reason}")


NOBODY_TO_ASK = (
    "this host cannot ask one. An operator can allow the tool in the policy file (WAYGRAPH_POLICY_FILE), or use a host "
    "that takes MCP elicitation"
)


class NeedsConsent(NotRun):
    """A person has to say yes, and nobody can ask one here."""

    @property
    def policy_reason(self) -> str:
        """Why a person has to, as the policy says it."""
        return self.reason.removesuffix(NOBODY_TO_ASK).removesuffix("; ")

    def __init__(self, tool: str, reason: str) -> None:
        self.tool, self.reason = tool, reason
        super().__init__(f"{tool!r} runs only if a person agrees: {reason}")


class BudgetSpent(NotRun):
    """`reason`: which budget of calls. `ends_at`: when calls are taken again, ISO 8601 in UTC; empty: not in this
    session.
    """

    def __init__(self, tool: str, reason: str, ends_at: str = "") -> None:
        self.tool, self.reason, self.ends_at = tool, reason, ends_at
        until = f"calls are taken again from {ends_at} on" if ends_at else "another session has its own"
        super().__init__(f"{tool!r} was not run: {reason}; {until}")


class NeedsLogin(NotRun):
    """The tool acts as its caller, who is not logged in at the agent's server. `page`: where to log in; empty: nowhere.

    `how`: what to do where there is no page. `way`: what to do.
    """

    def __init__(self, tool: str, agent_id: str, *, page: str = "", how: str = "") -> None:
        self.tool, self.agent_id, self.page = tool, agent_id, page
        beside = how or f"run `waygraph logins add {agent_id}` beside the gateway"
        self.way = f"open {page} in a browser" if page else beside
        super().__init__(
            f"{tool!r} acts as its caller, who is not logged in at {agent_id!r}: {self.way}, then call it again"
        )


class InvalidArguments(NotRun):
    """`faults`: the place of each (a JSON pointer) and what was expected there."""

    def __init__(self, tool: str, faults: Iterable[tuple[str, str]]) -> None:
        self.tool, self.faults = tool, tuple(faults)
        reasons = "; ".join(f"at {place or '/'}: {expectation}" for place, expectation in self.faults)
        super().__init__(f"arguments of {tool!r}: {reasons}")


class AmbiguousTool(NotRun):
    """`candidates`: call names, best first."""

    def __init__(self, query: str, candidates: Iterable[str]) -> None:
        self.query, self.candidates = query, tuple(candidates)
        super().__init__(f"several tools fit {query!r}, so none was run; name one of: {', '.join(self.candidates)}")


class CallTimedOut(CallError):
    """Whether the tool did its work is not known, so nothing tries again by itself."""

    def __init__(self, tool: str, timeout_s: float) -> None:
        self.tool, self.timeout_s = tool, timeout_s
        super().__init__(f"{tool!r} did not answer within {timeout_s:g} s")


class InvalidDataset(WaygraphError):
    """`where` names file and line, or file and JSON pointer."""

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"{where}: {reason}")


class MissingExtra(WaygraphError):
    """Without an `extra` the package itself is what is to be installed."""

    def __init__(self, what: str, *, package: str, extra: str = "", of: str = "waygraph") -> None:
        self.package, self.extra = package, extra
        command = install_command(of, extra) if extra else install_command(package)
        super().__init__(f"{what} needs {package}, which is not installed: {command}")


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Around imports of packages that an extra of Waygraph brings. Raises MissingExtra where one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "waygraph").startswith("waygraph"):
            raise
        raise MissingExtra(what, package=str(error.name), extra=extra) from error


class MassRemoval(WaygraphError):
    def __init__(self, source: str, *, removed: int, held: int) -> None:
        self.source, self.removed, self.held = source, removed, held
        super().__init__(
            f"source {source!r} would lose {removed} of its {held} agents in one sync; nothing was changed. "
            "If that is meant, allow_mass_removal (--allow-mass-removal) lets it."
        )


class TextDiffers(WaygraphError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name!r} says something else than what was read; nothing was changed. Read it again.")


class CypherError(WaygraphError):
    pass


class CypherRefused(CypherError):
    pass


class CypherFailed(CypherError):
    pass


class CypherLimit(CypherError):
    pass


class CypherBusy(CypherError):
    retryable = True

    def __init__(self, most: int) -> None:
        self.allowed = most
        super().__init__(f"as many statements are at work as are allowed at a time, {most}. Try again.")


class AccessError(WaygraphError):
    pass


class NotAuthenticated(AccessError):
    pass


class NotAllowed(AccessError):
    pass


class TooManyRequests(AccessError):
    """`retry_after_s`: when the next request will be taken, in seconds from now."""

    retryable = True

    def __init__(self, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"too many requests; the next one is taken in {retry_after_s:.1f} s")


class TooManySessions(AccessError):
    """Of MCP's handshake era. `most`: so many may be open."""

    retryable = True

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(
            f"this caller has {most:,} sessions of MCP open, and may have no more (WAYGRAPH_SESSIONS_PER_CALLER). "
            "Close some, by DELETE with their Mcp-Session-Id; one that is not used ends by itself after half an hour."
        )


class KeysUnusable(_OfFile, AccessError):
    _text = "{} cannot be used as a file of API keys: {}"


class LoginsUnusable(_OfFile, AccessError):
    _text = "{} cannot be used as a file of callers' logins: {}"


class IssuerUnavailable(_AtPlace, AccessError):
    """`place` is the issuer's host."""

    retryable = True
    _text = "tokens cannot be checked: their issuer at {} {}"


class ServiceError(WaygraphError):
    pass


class ServiceUnavailable(_AtPlace, ServiceError):
    retryable = True
    _text = "the service at {} does not answer: {}"


class ServiceFailed(_AtPlace, ServiceError):
    _text = "the service at {}: {}"


class ServiceStopping(ServiceError):
    retryable = True

    def __init__(self) -> None:
        super().__init__("the service is stopping; nothing of this was written")


class ServiceBusy(ServiceError):
    """Too much of the kind waits for its turn, or this one waited too long: nothing of it was begun."""

    retryable = True


class NeedsRegistry(ServiceError):
    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(
            f"{place} is a service, and this needs the registry itself: run it where the registry is, "
            "with a file or neo4j:// as its place."
        )
