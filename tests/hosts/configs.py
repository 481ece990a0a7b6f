"""Configs as people have them: comments, last commas, Windows line breaks, marks at the begin, any indentation."""

from collections.abc import Mapping

SECRETS = ("ghp_0123456789abcdef", "s3cr3t-value", "old-password-42", "sk-live-zzz")
"""Stand in every one of these configs, as values and in comments."""

CURSOR = """{
    // mine, last changed with old-password-42
    "mcpServers": {
        "tides": {"command": "PYTHON", "args": ["-u", "PROGRAM"], "env": {"TOKEN": "s3cr3t-value"}},
        /* the second: ghp_0123456789abcdef */
        "more tides": {
            "command": "PYTHON", // as above
            "args": ["-u", "PROGRAM", "--key=sk-live-zzz"],
        },
        "off": {"command": "never-there", "disabled": true},
    },
}
"""

CLAUDE = """{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "tides": {
      "command": "PYTHON",
      "args": [
        "-u",
        "PROGRAM",
        "--password",
        "old-password-42"
      ],
      "env": {
        "GITHUB_TOKEN": "ghp_0123456789abcdef",
        "OTHER": "s3cr3t-value"
      }
    }
  },
  "scale": 1.50,
  "note": "sk-live-zzz"
}"""

VS_CODE = (
    "\ufeff{\r\n"
    "\t// old-password-42\r\n"
    '\t"inputs": [\r\n'
    '\t\t{"type": "promptString", "id": "key", "default": "s3cr3t-value"}, // sk-live-zzz\r\n'
    "\t],\r\n"
    '\t"servers": {\r\n'
    '\t\t"tides": {\r\n'
    '\t\t\t"type": "stdio",\r\n'
    '\t\t\t"command": "PYTHON",\r\n'
    '\t\t\t"args": ["-u", "PROGRAM"],\r\n'
    '\t\t\t"env": {"KEY": "${input:key}", "TOKEN": "ghp_0123456789abcdef"}\r\n'
    "\t\t}\r\n"
    "\t}\r\n"
    "}\r\n"
)

ONE_LINE = (
    '{"a":["ghp_0123456789abcdef","sk-live-zzz"],"mcpServers":{"tides":{"command":"PYTHON","args":["-u","PROGRAM"],'
    '"env":{"A":"s3cr3t-value","B":"old-password-42"}}}}'
)

ODD = """ {
   "mcpServers" :
   {
         "tides" : { "command" : "PYTHON" ,
  "args" : [ "-u" , "PROGRAM", "ghp_0123456789abcdef" ] } // sk-live-zzz
      , "x" : { "command" : "never-there", "args" : [ "--secret", "s3cr3t-value" ] }
   }
 , "z" : "old-password-42" }"""

CODEX = """# my config: old-password-42
model = "gpt-5"  # sk-live-zzz

[mcp_servers.tides]
command = "PYTHON"
args = ["-u", "PROGRAM"]

[mcp_servers.tides.env]
TOKEN = "ghp_0123456789abcdef"

[projects."/home/me"]
trust_level = "trusted"
note = '''
[s3cr3t-value]
'''
"""

ZED = """// Zed settings: old-password-42
{
  "theme": "One Dark", /* sk-live-zzz */
  "context_servers": {
    "tides": {
      "source": "custom",
      "command": {"path": "PYTHON", "args": ["-u", "PROGRAM"], "env": {"TOKEN": "ghp_0123456789abcdef"}},
    },
    "of-an-extension": {"settings": {"key": "s3cr3t-value"}},
  },
}
"""

GEMINI = CLAUDE.replace('"globalShortcut": "Ctrl+Space"', '"selectedAuthType": "gemini-api-key"')
WINDSURF = CURSOR

CONFIGS: Mapping[str, str] = {
    "cursor": CURSOR,
    "claude": CLAUDE,
    "claude-code": ONE_LINE,
    "vscode": VS_CODE,
    "vscode-insiders": VS_CODE,
    "codex": CODEX,
    "gemini-cli": GEMINI,
    "windsurf": WINDSURF,
    "zed": ZED,
}
"""Host → a config of its form."""
