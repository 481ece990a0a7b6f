"""A real nginx before a service: the configuration of docs/operations.md, on a free loopback port."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks
from tests.live_http import free_port, listening_server
from tests.servers.certificates import HOST, Certified

_AROUND = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{documented}
}}
"""


@contextmanager
def nginx(folder: Path, service_port: int, certified: Certified) -> Iterator[str]:
    """The address of the proxy. Skips where there is no nginx."""
    port = free_port()
    written = folder / "nginx.conf"
    written.write_text(_AROUND.format(folder=folder, documented=_documented(port, service_port, certified)))
    with listening_server((_program(), "-c", str(written), "-e", str(folder / "error.log")), port, {}):
        yield f"https://{HOST}:{port}"


def _program() -> str:
    # Debian has it where only an administrator's shell looks.
    if found := shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"):
        return found
    pytest.skip("nginx is not installed")


def _documented(port: int, service_port: int, certified: Certified) -> str:
    """The block of the page, with the places of this test."""
    [block] = blocks(DOCS / "operations.md", "nginx")
    for theirs, ours in {
        "server 127.0.0.1:8080;": f"server 127.0.0.1:{service_port};",
        "listen 443 ssl;": f"listen {HOST}:{port} ssl;",
        "server_name waygraph.example;": f"server_name {HOST};",
        "client_max_body_size 64m;": "client_max_body_size 16m;",  # lower than the client's own, so that it is met
        "/etc/ssl/waygraph.pem;": f"{certified.pem};",
        "/etc/ssl/waygraph.key;": f"{certified.pem};",
    }.items():
        assert block.count(theirs) == 1, theirs
        block = block.replace(theirs, ours)
    return block
