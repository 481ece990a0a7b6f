"""What a skill of an A2A agent takes: a message in words. The same for all, it tells nothing of a skill."""

from waygraph.registry.identity import canonical_json
from waygraph.registry.model import JsonText

MESSAGE, TASK, CONTEXT = "message", "task_id", "context_id"

SKILL_MESSAGE: JsonText = canonical_json(
    {
        "type": "object",
        "properties": {
            MESSAGE: {"type": "string", "minLength": 1, "description": "What the agent is asked, in words."},
            TASK: {"type": "string", "description": "Of a task that asked for more: to go on with it."},
            CONTEXT: {"type": "string", "description": "Of an earlier answer: to go on with that conversation."},
        },
        "required": [MESSAGE],
        "additionalProperties": False,
    }
)
"""No word of it is searched, and none is embedded."""
