"""The signals by which a node is asked to stop."""

import signal

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
