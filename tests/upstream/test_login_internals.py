"""The private methods of `mcp` that the login overrides or calls: they may move with any minor release."""

import pytest
from mcp.client.auth import OAuthClientProvider


@pytest.mark.parametrize(
    "name",
    ["_auth_flow", "_initialize", "_handle_refresh_response", "_perform_authorization_code_grant", "_refresh_token"],
)
def test_mcp_has_the_private_methods_of_the_login(name: str) -> None:
    assert callable(getattr(OAuthClientProvider, name, None)), f"`mcp` has no `OAuthClientProvider.{name}` any more"
