"""How a server's process is started: the way to the network that it inherits, and the time that a launcher gets."""

import os
import shlex
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.upstream.launches import PROGRAMS, SETTINGS, listing_of
from waygraph.ingest.manifest.environment import CERTIFICATES, inherited_variables, logins_in
from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.upstream.process_health import Activity, activity_of, is_pulling, launcher_of
from waygraph.registry.model.errors import UpstreamUnreachable

PASSED = {
    "HTTPS_PROXY": "http://proxy.example:3128",
    "http_proxy": "http://proxy.example:3128",
    "no_proxy": "localhost",
    "ALL_PROXY": "socks5://proxy.example",
    "NODE_EXTRA_CA_CERTS": "/etc/our.pem",
    "SSL_CERT_DIR": "/etc/certs",
    "UV_DEFAULT_INDEX": "https://packages.example/simple",
    "UV_INDEX_URL": "https://packages.example/simple",
    "UV_OFFLINE": "1",
    "UV_CACHE_DIR": "/var/cache/uv",
    "UV_NATIVE_TLS": "1",
    "NPM_CONFIG_REGISTRY": "https://packages.example/npm",
    "npm_config_cafile": "/etc/our.pem",
    "npm_config_https_proxy": "http://proxy.example",
    "npm_config_noproxy": "localhost",
    "NPM_CONFIG_STRICT_SSL": "true",
    "PIP_INDEX_URL": "https://packages.example/simple",
    "PIP_CERT": "/etc/our.pem",
}
KEPT_BACK = {
    "NPM_CONFIG__AUTH": "s3cret",
    "npm_config__authToken": "s3cret",
    "npm_config_//registry.example/:_authToken": "s3cret",
    "NPM_CONFIG_PROXY_PASSWORD": "s3cret",
    "UV_PUBLISH_TOKEN": "s3cret",
    "UV_INDEX_CORP_PASSWORD": "s3cret",
    "UV_INDEX_CORP_USERNAME": "s3cret",
    "PIP_KEYRING_PROVIDER": "x",
    "MY_HTTPS_PROXY": "x",
    "HTTPS_PROXY_TOKEN": "s3cret",
    "OPENAI_API_KEY": "s3cret",
    "AWS_SECRET_ACCESS_KEY": "s3cret",
    "WAYGRAPH_REGISTRY": "x",
    "LD_PRELOAD": "/x.so",
}


def test_a_server_inherits_the_way_to_the_network_and_no_login() -> None:
    inherited = inherited_variables({**PASSED, **KEPT_BACK, "PATH": "/bin"}, {})
    assert inherited == {**PASSED, "PATH": "/bin"}


def test_a_launch_s_own_variables_go_before_in_either_case() -> None:
    own = {"https_proxy": "", "UV_OFFLINE": "0"}
    environ = {"HTTPS_PROXY": "http://proxy.example", "https_proxy": "http://proxy.example", "UV_OFFLINE": "1"}
    assert inherited_variables(environ, own) == {}


@pytest.mark.parametrize(
    ("value", "logins"),
    [
        ("http://ann:p%40ssw0rd@proxy.example:3128", {"ann:p%40ssw0rd", "ann:p@ssw0rd", "p%40ssw0rd", "p@ssw0rd"}),
        ("ann:passw0rd@proxy.example", {"ann:passw0rd", "passw0rd"}),
        ("https://t0ken@packages.example/simple", {"t0ken"}),
        ("corp=https://a:passw0rd@one.example b=https://two.example", {"a:passw0rd", "passw0rd"}),
        ("http://proxy.example:3128", set()),
        ("/var/cache/@scope", set()),
    ],
)
def test_a_login_in_an_inherited_address_is_known(value: str, logins: set[str]) -> None:
    assert logins_in({"HTTPS_PROXY": value, "USER": "ann@corp.example"}) == logins


def test_a_proxy_s_password_reaches_the_process_and_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://ann:passw0rd@127.0.0.1:9")
    code = "import os, sys; sys.exit('Error: no way through ' + os.environ['HTTPS_PROXY'])"
    with pytest.raises(UpstreamUnreachable) as caught:
        listing_of(StdioLaunch(command=sys.executable, args=("-c", code)))
    assert "no way through http://***@127.0.0.1:9" in caught.value.reason
    assert "passw0rd" not in caught.value.reason


def test_a_server_starts_where_we_are_or_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    code = "import os, sys; sys.exit('Error: I am in ' + os.getcwd())"
    for folder, expected in (("", tmp_path), (str(tmp_path / "own"), tmp_path / "own")):
        with pytest.raises(UpstreamUnreachable) as caught:
            listing_of(StdioLaunch(command=sys.executable, args=("-c", code), cwd=folder))
        assert caught.value.reason.endswith(f"I am in {expected}")


@pytest.mark.parametrize(
    "line",
    [
        "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
        "Error: self-signed certificate in certificate chain",
        "error: invalid peer certificate: UnknownIssuer",
        "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "npm error code UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
    ],
)
def test_a_fault_of_a_certificate_names_what_says_whom_to_believe(line: str) -> None:
    with pytest.raises(UpstreamUnreachable) as caught:
        listing_of(StdioLaunch(command=sys.executable, args=("-c", f"import sys; sys.exit({line!r})")))
    assert all(name in caught.value.reason for name in CERTIFICATES)


@pytest.mark.parametrize(
    ("line", "is_older"),
    [
        ("AttributeError: 'Server' object has no attribute 'list_resources'", True),
        ("ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x", True),
        ("ImportError: cannot import name 'McpError' from 'mcp.shared.exceptions'", True),
        ("ModuleNotFoundError: No module named 'weir'", False),
        ("Error: the mcp port is taken", False),
    ],
)
def test_a_server_of_the_former_sdk_is_told_how_to_get_it(line: str, is_older: bool) -> None:
    with pytest.raises(UpstreamUnreachable) as caught:
        listing_of(StdioLaunch(command=sys.executable, args=("-c", f"import sys; sys.exit({line!r})")))
    assert ("uvx --with 'mcp<2'" in caught.value.reason) is is_older


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("npx -y weir", "npx"),
        (r"'C:\nodejs\npx.cmd' -y weir", "npx"),
        ("/opt/uv/bin/uvx weir", "uvx"),
        ("uv tool run weir", "uv"),
        ("uv --directory /srv run weir", "uv"),
        ("docker run -i --rm weir", "docker"),
        ("sh -c 'exec npx weir'", "npx"),
        ("cmd /c npx -y weir", "npx"),
        ("env KEY=1 pipx run weir", "pipx"),
        ("bun x weir", "bun"),
        ("docker exec weir serve", ""),
        ("uv pip list", ""),
        ("node npx.js", ""),
        ("python -m weir", ""),
    ],
)
def test_a_launcher_is_known_by_its_name_and_subcommand(command: str, launcher: str) -> None:
    words = shlex.split(command)
    assert launcher_of(StdioLaunch(command=words[0], args=tuple(words[1:]))) == launcher


def test_an_image_that_is_pulled_is_told_by_the_client_of_the_daemon() -> None:
    pulling = "Unable to find image 'weir:latest' locally\nlatest: Pulling from library/weir\n"
    assert is_pulling(pulling)
    assert not is_pulling(pulling + "Status: Downloaded newer image for weir:latest\n")
    assert not is_pulling("weir: ready\n")


def test_what_a_process_does_is_a_sign_of_life() -> None:
    idle = Activity(is_known=True, processes=frozenset({7}), ticks=10, bytes=100)
    assert not replace(idle, bytes=101).is_sign_of_life(idle)
    assert replace(idle, bytes=50_000).is_sign_of_life(idle)
    assert replace(idle, ticks=20).is_sign_of_life(idle)
    assert replace(idle, processes=frozenset({7, 8})).is_sign_of_life(idle)
    assert Activity(is_known=False).is_sign_of_life(Activity(is_known=False))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not known")
def test_the_work_of_this_session_is_seen() -> None:
    before = activity_of(os.getsid(0))
    assert before.is_known
    assert os.getpid() in before.processes
    assert activity_of(2**30).processes == frozenset()


LAUNCHER = """#!{python} -S
import os, sys, time
began = time.monotonic()
while time.monotonic() - began < {seconds}:
    {work}
os.execv({python!r}, [{python!r}, "-S", {server!r}])
"""
WORKS = {
    "by what it computes": "sum(range(100_000))",
    "by what it writes": "open(os.devnull, 'w').write('x' * 100_000); time.sleep(0.05)",
    "by what it says": "print('Downloading', file=sys.stderr, flush=True); time.sleep(0.2)",
}


HANDSHAKE = PROGRAMS / "handshake.py"


def launch_by_npx(folder: Path, seconds: float, work: str, server: Path = HANDSHAKE) -> StdioLaunch:
    """By a program of that name which does some work before it becomes the server."""
    program = folder / "npx"
    program.write_text(LAUNCHER.format(python=sys.executable, seconds=seconds, work=work, server=str(server)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return StdioLaunch(command=str(program), args=("-y", "weir"))


@pytest.mark.full
@pytest.mark.parametrize("sign", WORKS)
def test_a_launcher_that_shows_signs_of_life_gets_its_time(sign: str, tmp_path: Path) -> None:
    """Its work takes longer than a start may."""
    settings = replace(SETTINGS, upstream_connect_timeout_s=2.5)
    assert listing_of(launch_by_npx(tmp_path, 4.0, WORKS[sign]), settings).tools


@pytest.mark.parametrize(("name", "hint"), [("npx", True), ("weir", False)])
def test_one_that_hangs_ends_in_time_and_a_launcher_is_to_be_run_again(name: str, hint: bool, tmp_path: Path) -> None:
    launch = launch_by_npx(tmp_path, 600, "time.sleep(600)")
    Path(launch.command).rename(tmp_path / name)
    settings = replace(SETTINGS, upstream_connect_timeout_s=1.5)
    with pytest.raises(UpstreamUnreachable, match=r"did not answer within \d+(?:\.\d)? s") as caught:
        listing_of(replace(launch, command=str(tmp_path / name)), settings)
    assert ("run it again" in caught.value.reason) == hint


@pytest.mark.full
def test_a_launcher_that_never_comes_to_its_end_is_ended(tmp_path: Path) -> None:
    settings = replace(SETTINGS, upstream_connect_timeout_s=1.2)
    with pytest.raises(
        UpstreamUnreachable, match=r"within 12 s .*last said: Downloading; npx may still .* run it again"
    ):
        listing_of(launch_by_npx(tmp_path, 600, WORKS["by what it says"]), settings)
