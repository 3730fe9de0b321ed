"""`python -m conformance.runner`, in syntax that any Python 3 reads, to say which one is needed."""

import platform
import sys

if sys.version_info < (3, 12):  # noqa: UP036
    sys.stderr.write(
        "error: the conformance runner needs Python 3.12 or later, and this is "
        + platform.python_version()
        + "\n"
    )
    sys.exit(2)

from conformance.runner.command_line import main

if __name__ == "__main__":
    sys.exit(main())
