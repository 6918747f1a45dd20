"""Logs blooms: a header whose bloom excludes an address or topic proves that none of its block's logs has it."""

from rollup_node.stages.protocol.keccak import keccak256

_BITS = 2048


def bloom_mask(value: bytes) -> int:
    """The (at most) three bits that an address or topic of a log sets, as a 2048-bit number."""
    digest = keccak256(value)
    mask = 0
    for at in (0, 2, 4):
        mask |= 1 << (int.from_bytes(digest[at : at + 2], "big") % _BITS)
    return mask


def may_have(bloom: bytes, *masks: int) -> bool:
    """Whether the bloom has all bits of all masks; False proves that no log has all of them."""
    bits = int.from_bytes(bloom, "big")
    return all(bits & mask == mask for mask in masks)
