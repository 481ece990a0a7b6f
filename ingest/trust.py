"""Whose certificates are believed."""

import ssl
from functools import cache

import httpx2


@cache
def trust() -> ssl.SSLContext:
    """The system's, or those of SSL_CERT_FILE; loaded once, since that takes longer than a request."""
    return httpx2.create_ssl_context()
