"""What a compute worker is told at its start."""

import msgspec


class ComputeConfig(msgspec.Struct, frozen=True):
    """`kzg` loads the KZG set-up at the start when the supervisor has not done so already."""

    kzg: bool = True
