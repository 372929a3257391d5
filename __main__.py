"""`python -m stepscope`."""

import sys

from .cli.main import main

sys.exit(main(sys.argv[1:]))
