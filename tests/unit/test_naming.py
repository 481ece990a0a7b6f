"""What a server is called that nobody named: by its command, by its address."""

import pytest

from waygraph.ingest.sources.opening import key_of_command, key_of_url, name_of_command, printable_source


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("uvx mcp-server-time --local-timezone=Europe/Oslo", "mcp-server-time"),
        ("uvx --from git+https://example.org/x fieldnotes", "fieldnotes"),
        ("npx -y @acme/server-everything@latest stdio", "server-everything"),
        ("npx @acme/notes", "notes"),
        ("docker run -i --rm -e TOKEN -v /a:/b ghcr.io/acme/harbour:1.0", "harbour"),
        ("python -m acme.weather", "acme.weather"),
        ("/usr/bin/python3.12 /opt/weather/server.py --fast", "weather"),
        ("node build/index.js", "build"),
        ("uv --directory /opt run forecast.py", "forecast"),
        ("uv run --with mcp forecast.py", "forecast"),
        ("./bin/tool serve", "tool"),
        ("npx", "npx"),
        ("python --version", "python"),
    ],
)
def test_a_command_names_what_it_starts(command: str, key: str) -> None:
    """The runner, its options, scopes, versions, folders and endings say nothing of the server."""
    assert key_of_command(command.split()) == key


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://mcp.example.com/mcp", "mcp.example.com"),
        ("https://example.com/billing/mcp/", "example.com/billing"),
        ("http://127.0.0.1:8931/sse", "127.0.0.1-8931"),
        ("https://example.com:443/mcp", "example.com"),
        ("https://someone:hidden@example.com/a?key=hidden", "example.com/a"),
    ],
)
def test_an_address_names_its_host_and_path(url: str, key: str) -> None:
    """A port that is not the scheme's tells servers apart; login and query are no part of a name."""
    assert key_of_url(url) == key


def test_no_secret_is_in_a_source_s_name() -> None:
    command = ["npx", "tool", "--token", "s3cr3t-a", "--api-key=s3cr3t-b", "https://u:s3cr3t-c@h/x?key=s3cr3t-d"]
    assert "s3cr3t" not in name_of_command(command)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("catalog/", "catalog/"),
        ("C:\\catalog", "C:\\catalog"),
        ("mcp-registry:", "mcp-registry:"),
        ("https://h.example/mcp", "https://h.example/mcp"),
        ("https://u:s3cret@h.example/mcp?key=s3cret#s3cret", "https://${USER}:${PASSWORD}@h.example/mcp?key=${key}"),
        ("https://h.example/s/NjQ4OTcwYWItZTFhMi00YzI2/mcp", "https://h.example/s/${path_key}/mcp"),
        ("mcp-registry:https://u:s3cret@h.example", "mcp-registry:https://${USER}:${PASSWORD}@h.example"),
        ("https://u:s3cret@[::1", "https://…"),
    ],
)
def test_what_was_given_is_shown_without_its_secrets(given: str, told: str) -> None:
    """Paths as they are, addresses with references; one that cannot be read not at all."""
    assert printable_source(given) == told
