"""Lengths of time as the log, `/readyz` and `rollup-node status` write them."""


def duration(seconds: float) -> str:
    """Its two largest units: `8s`, `6m55s`, `2h13m`, `3d4h`."""
    whole = int(seconds)
    for unit, name, below, below_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            return f"{whole // unit}{name}{whole % unit // below}{below_name}"
    return f"{whole}s"


def age(seconds: float) -> str:
    """The same, with a decimal below ten seconds: `0.4 s`."""
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)
