"""Says which Python is needed, before an older pip looks for dependencies that an older Python cannot have."""

import sys

if sys.version_info < (3, 12):  # noqa: UP036 - it is for those that are not supported
    sys.exit("Waygraph needs Python 3.12 or newer; this is %d.%d." % sys.version_info[:2])  # noqa: UP031 - of any Python

from setuptools import setup

setup()
