"""How large a course is."""

import msgspec


class CourseSize(msgspec.Struct, frozen=True):
    """The blocks of a course.

    `l1_blocks` after the L1 genesis block with `transactions` each, which hold the batches of `l2_blocks` with
    `l2_transactions` signed transactions each. `deposits` are those of the whole course. With `sidecars` 0 the Beacon
    API has no blob sidecars, whose KZG proofs take seconds to begin with. Each L1 block has `garbage` transactions to
    the inbox that derivation drops, with `other_parents` also batches whose parent is another block, which only who
    knows the hashes of L2 blocks can drop. The forks after Fjord activate `fork_blocks` L2 blocks one after the other,
    all at genesis with 0."""

    l1_blocks: int = 300
    transactions: int = 150
    deposits: int = 175
    l2_blocks: int = 1770
    l2_transactions: int = 10
    blocks_per_channel: int = 200
    blocks_per_span: int = 100
    sidecars: int = 1
    garbage: int = 0
    other_parents: int = 1
    fork_blocks: int = 0
