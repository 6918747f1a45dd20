"""What a compute worker is configured with."""

import msgspec


class ComputeConfig(msgspec.Struct, frozen=True):
    """`kzg` loads the KZG set-up at start, unless the supervisor has loaded it before the fork."""

    kzg: bool = True
