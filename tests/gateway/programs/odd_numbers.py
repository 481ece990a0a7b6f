"""A server of the handshake era, by hand: `python odd_numbers.py NAME LIST_EXTRA ITEM_EXTRA`.

The extras are JSON, each begun by a comma, that stand in what it lists as they are: no library would write them.
"""

import json
import sys

HELLO = '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":%s}'


def main(name: str, of_list: str, of_item: str) -> None:
    word = json.dumps(name)
    answers = {
        "initialize": HELLO % f'{{"name":{word},"version":"1"}}',
        "tools/list": f'{{"tools":[{{"name":"go","description":"Goes.","inputSchema":{{"type":"object"}}}}]{of_list}}}',
        "prompts/list": f'{{"prompts":[{{"name":{word}{of_item}}}]{of_list}}}',
        "resources/list": f'{{"resources":[{{"uri":"note://{name}","name":{word}{of_item}}}]{of_list}}}',
        "resources/templates/list": '{"resourceTemplates":[]}',
        "tools/call": f'{{"content":[{{"type":"text","text":"went"{of_item}}}]{of_list}}}',
    }
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        token = (message.get("params", {}).get("_meta") or {}).get("progressToken")
        if message["method"] == "tools/call" and token is not None:
            params = f'{{"progressToken":{json.dumps(token)},"progress":{of_list[9:] or 1}}}'
            sys.stdout.write(f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}\n')
        result = answers.get(message["method"], "{}")
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{result}}}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
