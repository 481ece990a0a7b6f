"""Reads a source of servers that never answer, until it is interrupted: `reads_silent_servers.py COUNT MARK`."""

import sys

from waygraph.ingest.manifest import AgentRecord
from waygraph.ingest.sources.mcp_servers import McpServers
from waygraph.ingest.upstream.launch import ServerEntry, StdioLaunch
from waygraph.registry.settings import Settings


def main(count: int, mark: str) -> int:
    command = ("-I", "-S", "-c", "import time; time.sleep(600)")
    launch = StdioLaunch(command=sys.executable, args=command, env={"WAYGRAPH_TEST_MARK": mark})
    servers = [
        ServerEntry(key=f"s{number}", launch=launch, record=AgentRecord(pointer=f"/{number}", key=f"s{number}"))
        for number in range(count)
    ]
    try:
        McpServers(name="silent", servers=servers, settings=Settings()).read()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
