"""What an operator's files say of calls, read before anything is begun; without the SDK, which takes longer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.ingest.calling.services import Services, load_services
from waygraph.registry.policy import CallPolicy
from waygraph.registry.policy_file import load_policy

if TYPE_CHECKING:
    from waygraph.registry.settings import Settings


@dataclass(frozen=True, slots=True)
class Rules:
    policy: CallPolicy
    services: Services


def load_rules(settings: "Settings") -> Rules:
    """Raises InvalidSetting."""
    return Rules(load_policy(settings.policy_file), load_services(settings.services_file))
