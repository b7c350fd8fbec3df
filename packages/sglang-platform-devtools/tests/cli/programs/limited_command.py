"""The command with at most so many MiB of memory: `limited_command.py MIB ARGUMENTS`."""

import resource
import sys

from sglang_platform.core.cli import main

limit = int(sys.argv.pop(1)) << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
main()
