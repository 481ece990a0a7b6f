"""What an error came of: libraries wrap what happened, some more than once."""


def causes(exc: BaseException) -> list[BaseException]:
    """The error itself first, then what it came of, groups included."""
    found: list[BaseException] = []
    todo: list[BaseException | None] = [exc]
    while todo:
        error = todo.pop()
        if error is None or error in found:
            continue
        found.append(error)
        todo += [error.__context__, error.__cause__]
        if isinstance(error, BaseExceptionGroup):
            todo += error.exceptions
    return found
