"""The driver's errors as ours: what was seen, in one line without a secret, and whether waiting may help."""

from collections.abc import Iterator
from dataclasses import dataclass
from ssl import SSLCertVerificationError, SSLError

from neo4j import exceptions

from waygraph.registry.model import errors
from waygraph.registry.model.settings import Settings

Kinds = tuple[type[Exception], ...]
DRIVERS: Kinds = (exceptions.Neo4jError, exceptions.DriverError)
"""What nobody but the driver raises, whatever else runs meanwhile."""
FOREIGN: Kinds = (*DRIVERS, OSError, UnicodeEncodeError)
"""All that the driver raises."""
CONNECTION_LOSSES = (exceptions.ServiceUnavailable, exceptions.SessionExpired)
"""A connection is dead, or none was to be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCall:
    """Which server was asked for which database, and as whom; as people name them."""

    place: str
    database: str
    who: str

    @classmethod
    def by(cls, settings: Settings, *, place: str, database: str) -> "ServerCall":
        if settings.neo4j_token:
            who = "the bearer of this token"
        elif settings.neo4j_password:
            who = f"user {settings.neo4j_user!r}"
        else:
            who = "anybody without a password"
        return cls(place=place, database=database, who=who)


def our_error(
    exc: BaseException, call: ServerCall, statement: str = "", *, reads: bool = False
) -> errors.RegistryError:
    """Ours for one of `FOREIGN`; `statement` is the name of what was being run, which `reads` or may write."""
    place, code, message = call.place, _code(exc), root_message(exc)
    error: errors.RegistryError
    if reads and _is_crowded(exc):
        # A read of ours needs little: what leaves no room for it is others' work, and passes.
        error = _unavailable(message, place)
    elif isinstance(exc, (exceptions.AuthError, exceptions.Forbidden)) or ".Security." in code:
        error = _refusal(exc, call)
    elif code == "Neo.ClientError.Database.DatabaseNotFound":
        error = errors.ServerRefused(place, f"there is no database {call.database!r} ({message})")
    elif _is_of_tls(exc):
        error = _no_tls(exc, place)
    elif _has_no_room(exc):
        error = errors.StorageFailed(
            f"{place} has no room for this, or takes no writes, and kept nothing of it: {message}"
        )
    elif "TransactionTimedOut" in code:
        settings = "WAYGRAPH_NEO4J_READ_TIMEOUT_S or WAYGRAPH_NEO4J_WRITE_TIMEOUT_S"
        error = errors.EngineError(f"{place}: it took longer than {settings} allows ({message})")
    elif isinstance(exc, exceptions.IncompleteCommit):
        error = errors.ServerUnavailable(place, f"whether the change was kept is not known; repeat it ({message})")
    elif any(sign in code for sign in ("Deadlock", "Transaction.Lock", "Outdated", "ConstraintsChanged")):
        error = errors.WriteConflict(f"{place}: another writer was in the way; try again ({message})")
    elif isinstance(exc, (*CONNECTION_LOSSES, exceptions.TransientError, exceptions.ConnectionPoolError, OSError)):
        error = _unavailable(message, place)
    else:
        error = errors.EngineError(f"{place}{': ' + statement if statement else ''}: {message}")
    return error


def may_pass(exc: BaseException | None) -> bool:
    """Whether the same transaction may succeed a little later."""
    if not (isinstance(exc, (exceptions.Neo4jError, exceptions.DriverError)) and exc.is_retryable()):
        return False
    # What all transactions share may be free again soon; one that is too large by itself stays so.
    return not _has_no_room(exc) or _is_crowded(exc)


def root_message(exc: BaseException) -> str:
    """The first line of what went wrong at the root: the driver's own words only wrap a refused connection."""
    root = list(_causes(exc))[-1] if isinstance(exc, CONNECTION_LOSSES) else exc
    message = root.message if isinstance(root, exceptions.Neo4jError) else str(root)
    return (message or type(root).__name__).partition("\n")[0]


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """The error, its cause, and so on; of a group of errors the first."""
    following: BaseException | None = exc
    while following is not None:
        yield following
        is_group = isinstance(following, BaseExceptionGroup)
        following = following.exceptions[0] if is_group else following.__cause__  # type: ignore[attr-defined]


def is_defined_meanwhile(exc: BaseException | None) -> bool:
    """Whether just the index or constraint that was to be made is there."""
    signs = ("EquivalentSchemaRuleAlreadyExists", "Schema.IndexAlreadyExists", "Schema.ConstraintAlreadyExists")
    return any(sign in _code(exc) for sign in signs)


def _code(exc: BaseException | None) -> str:
    return str(exc.code or "") if isinstance(exc, exceptions.Neo4jError) else ""


def _is_of_tls(exc: BaseException) -> bool:
    """Of the handshake: a connection that breaks later ends in an SSLError too."""
    causes = list(_causes(exc))
    return isinstance(causes[-1], SSLError) and any("encrypted connection" in str(cause) for cause in causes)


def _has_no_room(exc: BaseException) -> bool:
    return any(sign in _code(exc) for sign in ("OutOfMemoryError", "OutOfDiskSpace", "WriteOnReadOnlyAccessDatabase"))


def _is_crowded(exc: BaseException) -> bool:
    """No room in what all transactions share, `dbms.memory.transaction.total.max`."""
    return _has_no_room(exc) and "total.max" in root_message(exc)


def _refusal(exc: BaseException, call: ServerCall) -> errors.RegistryError:
    if isinstance(exc, exceptions.Forbidden) or "Forbidden" in _code(exc):
        reason = (
            f"{call.who} lacks a right ({root_message(exc)}). It must read, write, and make constraints and indexes."
        )
    else:
        reason = (
            f"the server did not let {call.who} in ({root_message(exc)}). "
            "Set WAYGRAPH_NEO4J_USER and WAYGRAPH_NEO4J_PASSWORD, or WAYGRAPH_NEO4J_TOKEN."
        )
    return errors.ServerRefused(call.place, reason)


def _no_tls(exc: BaseException, place: str) -> errors.RegistryError:
    if isinstance(list(_causes(exc))[-1], SSLCertVerificationError):
        advice = "Its certificate is not trusted: name its authority in WAYGRAPH_NEO4J_CA_FILE."
    else:
        advice = "A server without TLS is named neo4j:// or bolt://, without +s."
    return errors.ServerRefused(place, f"no encrypted connection can be made ({root_message(exc)}). {advice}")


def _unavailable(message: str, place: str) -> errors.RegistryError:
    hint = ". A server that wants TLS is named neo4j+s:// or bolt+s://" if "handshake" in message else ""
    return errors.ServerUnavailable(place, message + hint)
