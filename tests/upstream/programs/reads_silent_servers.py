"""Reads a source of servers that never answer, until it is interrupted: `reads_silent_servers.py COUNT MARK FOLDER`.

Each writes a file into the folder when it is asked.
"""

import sys

from waygraph.ingest.manifest.records import AgentRecord, ServerEntry, StdioLaunch
from waygraph.ingest.sources.mcp_servers import McpServers
from waygraph.registry.model.settings import Settings

SILENT = """if True:
    import os, sys, time
    sys.stdin.readline()
    open(os.path.join(sys.argv[1], str(os.getpid())), "x").close()
    time.sleep(600)
"""


def main(count: int, mark: str, folder: str) -> int:
    launch = StdioLaunch(
        command=sys.executable, args=("-I", "-S", "-c", SILENT, folder), env={"WAYGRAPH_TEST_MARK": mark}
    )
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
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
