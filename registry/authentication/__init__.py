"""Who calls a service: API keys, tokens of an OIDC issuer, and how often one may call. Knows no web framework.

`authentication_of(settings)` is the way in.
"""

from waygraph.registry.authentication.authenticator import Authenticator, authentication_of
from waygraph.registry.authentication.keys import ApiKey, KeyFile
from waygraph.registry.authentication.rate_limit import FailureLimit, RateLimit

__all__ = ["ApiKey", "Authenticator", "FailureLimit", "KeyFile", "RateLimit", "authentication_of"]
