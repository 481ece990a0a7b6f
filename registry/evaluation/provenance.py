"""Where a figure comes from: the commit of the checkout whose code measured it."""

import os
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder above `registry`: the project's root in a checkout, the package's folder in an installation."""
NO_CODE = ("evals", "docs", "*.md")
"""What makes no figure another: records that a run has just written, and documents."""


def source_commit(folder: Path = CHECKOUT) -> str:
    """The short commit that `folder` has checked out, `+changes` if its tracked files but `NO_CODE` differ from it.

    Empty if the folder is not itself the root of a checkout: what is installed into somebody's project does not
    carry that project's commit. Empty without git too.
    """
    root = _git(folder, "rev-parse", "--show-toplevel")
    if not root or Path(root) != folder.resolve():
        return ""
    commit = _git(folder, "rev-parse", "--short", "HEAD")
    code = (".", *(f":(exclude){path}" for path in NO_CODE))
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *code)
    return f"{commit}+changes" if commit and changed else commit


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; empty if it fails, is not there, or takes longer than 10 s.

    Variables such as GIT_DIR, which a hook sets, speak of another checkout.
    """
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
