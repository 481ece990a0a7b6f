"""Certificates for servers of tests, made when they are asked for."""

import datetime as dt
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Certified:
    """A server on 127.0.0.1. `pem`: its key and its certificate; `authority`: who vouches for it, for clients."""

    pem: Path
    authority: Path

    def context(self) -> ssl.SSLContext:
        """For a server written in Python."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pem)
        return context


def certified(folder: Path) -> Certified:
    """By an authority that only clients know which are told of it, as a company has one for its own machines."""
    authority_key, key = _key(), _key()
    authority = (
        _certificate("an authority of tests", authority_key.public_key(), "an authority of tests")
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_others=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    own = (
        _certificate("a server of tests", key.public_key(), "an authority of tests")
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_others=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    made = Certified(folder / "server.pem", folder / "authority.pem")
    made.pem.write_bytes(_secret(key) + own.public_bytes(serialization.Encoding.PEM))
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    return made


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _certificate(name: str, key: ec.EllipticCurvePublicKey, issuer: str) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_others: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_others,
        key_cert_sign=signs_others,
        crl_sign=signs_others,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _secret(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
