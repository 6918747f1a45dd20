"""How many file descriptors a process may open."""

import resource


def raise_descriptor_limit() -> int:
    """Raises the soft limit to the hard one, as programs may that do not use select(); the limit that is in force."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
