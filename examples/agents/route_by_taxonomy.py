"""An orchestrator that hands each task to the agents which a language model finds by walking the taxonomy.

    waygraph taxonomy build --model openai:gpt-5-mini       # or --by vectors, without a model
    python route_by_taxonomy.py --model gpt-5-mini "Book a flight to Oslo" "Tell the team by mail"

OPENAI_BASE_URL and OPENAI_API_KEY say where the model is: any endpoint that speaks OpenAI's chat completions.
"""

import argparse

from waygraph import Query, Registry, recipe_named


def assign(registry: Registry, tasks: list[str], model: str, mode: str) -> None:
    """Prints the agents of each task with their best tools, and what the walk cost."""
    recipe = recipe_named("taxonomy", walk=f"openai:{model}", mode=mode)
    for task in tasks:
        found = registry.route(Query(text=task, limit=3), recipe=recipe)
        print(task)
        for match in found.matches:
            print(f"  {match.agent.id}: {', '.join(tool.call_name for tool in match.tools[:3])}")
        if found.walked:
            tokens = found.walked.prompt_tokens + found.walked.completion_tokens
            opened = [f"{visit.path}/{name}".strip("/") for visit in found.walked.visits for name in visit.opened]
            print(f"  {found.walked.calls} calls, {tokens} tokens; opened: {', '.join(opened) or 'no category'}")
        if found.notice():
            print(f"  {found.notice()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Name the agents for each task, by a walk of the taxonomy.")
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument("--model", required=True, help="its name at the endpoint")
    parser.add_argument("--mode", default="get_important", help="get_all, get_important or get_one")
    parser.add_argument("--registry", default="registry.grafeo", help="a file, or a graph server's address")
    given = parser.parse_args()
    with Registry.open(given.registry) as opened:
        assign(opened, given.tasks, given.model, given.mode)
