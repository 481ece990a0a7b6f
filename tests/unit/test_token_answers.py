"""What is read of an issuer's answer with a token: by logins, and by exchanges of tokens."""

import pytest

from waygraph.ingest.logins.store import read_token


@pytest.mark.parametrize(
    ("status", "content", "expected"),
    [
        (200, b'{"access_token": "t", "token_type": "Bearer", "expires_in": 60}', (200, 60)),
        (201, b"access_token=t&token_type=bearer&expires_in=60", (200, 60)),
        (200, b'{"access_token": "t", "expires_in": "3600"}', (200, 3600)),
        (200, b'{"access_token": "t", "expires_in": 3600.9}', (200, 3600)),
        (200, b'{"access_token": "t", "expires_in": 0}', (200, None)),
        (200, b'{"access_token": "t", "expires_in": -1, "issued_token_type": "x"}', (200, None)),
        (200, b"error=invalid_target", (400, None)),
        (200, b'{"error": "invalid_target", "access_token": ""}', (400, None)),
        (403, b'{"error": "invalid_target"}', (403, None)),
    ],
)
def test_an_answer_is_read_in_each_form(status: int, content: bytes, expected: tuple[int, int | None]) -> None:
    read_status, fields = read_token(status, content)
    assert (read_status, fields.get("expires_in")) == expected
    assert fields.get("access_token") == ("t" if read_status == 200 else None)
    assert fields.get("error") == (None if read_status == 200 else "invalid_target")


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b"null", b'{"token": "t"}', b"\xff", b"[" * 100_000])
def test_what_is_no_such_answer_has_no_fields(content: bytes) -> None:
    assert read_token(200, content) == (200, {})
