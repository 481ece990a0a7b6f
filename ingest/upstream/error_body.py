"""The body of an HTTP answer that refuses: read with measure, and looked at for an error of JSON-RPC."""

import json
from contextlib import suppress

import anyio
import httpx2

WITHIN_S = 10.0
MOST_BYTES = 64 * 1024


async def start_of(response: httpx2.Response) -> bytes:
    """As much of it as anyone would read. Closes the answer; never raises."""
    read = bytearray()
    with suppress(httpx2.HTTPError, httpx2.StreamError), anyio.move_on_after(WITHIN_S):
        async for chunk in response.aiter_raw():
            read += chunk
            if len(read) > MOST_BYTES:
                break
    with suppress(httpx2.HTTPError):
        await response.aclose()
    return bytes(read)


def error_code(body: bytes) -> int | None:
    """Of a JSON-RPC error; None if it is none."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    error = message.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    code = error.get("code")
    return code if isinstance(code, int) else None
