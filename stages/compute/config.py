"""What a compute worker is configured with."""

import msgspec


class ComputeConfig(msgspec.Struct, frozen=True):
    """Nothing so far."""
