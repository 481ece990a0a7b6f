"""What of an address's path looks like a key, and what does not."""

import pytest

from waygraph.ingest.manifest.transport import path_keys, without_path_keys


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://mcp.host/api/s/NjQ4OTcwYWItZTFhMi00YzI2/mcp", "https://mcp.host/api/s/${path_key}/mcp"),
        ("https://x.host/mcp/3f2b8c1e-1234-4abc-9def-0123456789ab/sse", "https://x.host/mcp/${path_key}/sse"),
        ("https://x.host/3f2b8c1e12344abc9def0123456789ab", "https://x.host/${path_key}"),
        ("https://h/sk_live_51H8xyzABCdef0123a5/mcp?a=b", "https://h/${path_key}/mcp?a=b"),
        ("https://h/eyJhbGciOiJIUzI1NiJ9xx.eyJzdWIiOiIxMjM0NTY3ODkw.Sf1KxwRJ5MeKKF2QT4fwpM", "https://h/${path_key}"),
        ("--url=https://h/NjQ4OTcwYWItZTFhMi00YzI2 -y", "--url=https://h/${path_key} -y"),
    ],
)
def test_what_is_made_by_chance_is_a_key(text: str, kept: str) -> None:
    """A token or a UUID, wherever in the path it stands; the rest of the text stays."""
    assert without_path_keys(text) == kept
    assert without_path_keys(kept) == kept
    [key] = path_keys(text)
    assert key not in kept


@pytest.mark.parametrize(
    "text",
    [
        "https://server.host/@user/some-long-name-with-digits-2024/mcp",
        "https://h/v1/projects/my-project-2024-11-05/mcp",
        "https://h/model-context-protocol-server-everything/mcp",
        "https://h/abcdefghijklmnopqrstuvwxyz/0123456789012345678901",
        "git+https://host/a/b.git@0123456789abcdef0123456789abcdef01234567",
        "https://host/Shak-Shat/Langgraph4Context7",
        "/home/ann/3f2b8c1e-1234-4abc-9def-0123456789ab",
        "https://${HOST}/${PATH_OF_IT}/mcp",
        "NjQ4OTcwYWItZTFhMi00YzI2",
    ],
)
def test_names_versions_and_files_are_none(text: str) -> None:
    assert without_path_keys(text) == text
    assert path_keys(text) == frozenset()
