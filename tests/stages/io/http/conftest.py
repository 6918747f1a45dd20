"""The scheme of the servers of a test, for all that are `over_both`."""

from tests.support.servers.raw_http import scheme

__all__ = ["scheme"]
