"""`python -m stepscope`."""

import signal
import sys

try:
    from .cli.main import main
except KeyboardInterrupt:  # Ctrl-C while the verbs are imported; another one changes nothing
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exec("")  # see `guarded`
    sys.stderr.write("perf: interrupted\n")
    sys.exit(130)

sys.exit(main())
