"""A web server on a free loopback port, with or without TLS, that answers what a test says."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.http_doubles import Quiet, serve_in_thread

type Answer = tuple[int, Mapping[str, str], bytes]
type Act = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class WebPages:
    """`pages`: path → an answer, or what is done with the connection. What is not there is not found."""

    url: str = ""
    pages: dict[str, Answer | Act] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    """Path and headers, in lower case, of each request."""

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.pages[path] = (status, {"Location": to}, b"")


@contextmanager
def web_pages(
    pages: Mapping[str, Answer | Act] | None = None, *, certificate: Path | None = None, host: str = "127.0.0.1"
) -> Iterator[WebPages]:
    """`certificate`: a PEM file with its key; then it speaks TLS."""
    served = WebPages(pages=dict(pages or {}))
    with ThreadingHTTPServer((host, 0), _answering_for(served)) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        served.url = f"{'https' if certificate else 'http'}://{host}:{server.server_port}"
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that breaks off is no fault
        with serve_in_thread(server):
            yield served


def _answering_for(served: WebPages) -> type[BaseHTTPRequestHandler]:
    class Pages(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            answer = served.pages.get(self.path.partition("?")[0], (404, {}, b"not here"))
            if callable(answer):
                answer(self)
                return
            status, headers, body = answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the base class

    return Pages


def write_certificate(path: Path, *names: str, days: int = 1) -> Path:
    """A certificate that signs itself, for hosts and addresses, with its key; `days` below 0: it has ended."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(certificate.public_bytes(pem) + private)
    return path


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
