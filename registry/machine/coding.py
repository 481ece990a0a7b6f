"""How an answer over HTTP is coded: a limit of bytes holds for what is read, so nothing compressed is taken unasked."""

import httpx2

IDENTITY = "identity"
"""An answer as it is."""


def coding_of(response: httpx2.Response) -> str:
    """In lower case, as names of codings know no case (RFC 9110, 8.4.1); `identity` also if the header is empty."""
    named: str = response.headers.get("content-encoding", "")
    return named.strip().lower() or IDENTITY
