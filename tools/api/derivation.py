"""Derivation and the listing of batches in the program's own process: `derive`, `aderive` and `batches`."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rollup_node.tools.api.blocks import Block, arrow_table, pandas_frame, polars_frame
from rollup_node.tools.api.chains import Chain, chain_of, words_of
from rollup_node.tools.api.errors import InputError
from rollup_node.tools.api.stream import ProgressBar, Stream
from rollup_node.tools.inspect.batch_summary import BatchSummary

__all__ = ["BatchSummary", "Derivation", "aderive", "batches", "derive"]

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Path = str | os.PathLike[str]


class Derivation(Stream[Block]):
    """The blocks of `derive`, for one `for` or `async for` loop, or for a table."""

    def to_arrow(self) -> "pyarrow.Table":
        """Take all blocks that are left into an Arrow table. Raises InputError without pyarrow."""
        return arrow_table(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Take all blocks that are left into a pandas frame. Raises InputError without pandas and pyarrow."""
        return pandas_frame(self)

    def to_polars(self) -> "polars.DataFrame":
        """Take all blocks that are left into a polars frame. Raises InputError without polars and pyarrow."""
        return polars_frame(self)


def derive(
    chain: str | Chain,
    *,
    from_l2: int | None = None,
    to_l2: int | None = None,
    l1: str | None = None,
    beacon: str | None = None,
    l2: str | None = None,
    l2_blocks: Path | None = None,
    archive: Path | None = None,
    witness: Path | None = None,
    from_l1: int | None = None,
    timeout: float | None = 60.0,
    progress: bool | None = None,
    options: Mapping[str, object] | None = None,
) -> Derivation:
    """Derive the L2 blocks after `from_l2`, the safe head to begin with, up to `to_l2`, or as far as L1 goes.

    `chain` is the name of a built-in network, or a `Chain`. L1 is read from the URLs `l1` and `beacon`; or from
    `archive` alone, which is a folder of `rollup-node history run --archive`, or of recorded L1 data. With both, the
    archive, which may be an empty folder, is read before an endpoint is asked, and keeps what L1 has finalized.

    The L2 source is `l2`, the URL of an execution engine, or the file `l2_blocks`, which is that of the recorded data
    by default. It says what the safe head is, and each derived block is compared with its block. Without a source
    `from_l2` must be the chain's genesis; each batch is then taken to have the parent that it claims, and no block to
    be invalid in execution. `from_l1` is the L1 block to begin reading with; by default the one where a node would
    begin, or with a file of L2 blocks a channel timeout before the safe head's origin.

    Or everything is read from `witness`, a folder of `rollup-node witness`, and proven; its range is that of the
    witness, which `to_l2` may shorten.

    After `timeout` seconds without progress the derivation fails, with None it waits. `progress` shows a bar, which a
    notebook has by default if tqdm is installed. `options` are any of the node's options by name, such as
    {"l1.rpc-rate-limit": 20}.

    The result gives each `Block` to a `for` or an `async for` loop. Derivation runs in a thread ahead of the loop by a
    few blocks, and ends with it: at the last block, with `break`, an exception or Ctrl-C, after which another call
    works.

    Raises InputError at once for arguments that are wrong, RangeError for a range before genesis. The loop raises
    EndpointError where an endpoint does not answer or has another chain, RangeError where the range goes beyond L1's
    head or the chain's end, DataError where data lack or contradict each other, and BlockDiffers after the first block
    that differs from the source's."""
    # Deferred: it takes longer than everything else here.
    from rollup_node.tools.api.run import DerivationRun, L1Source
    from rollup_node.tools.api.witness_run import WitnessRun

    if witness is not None:
        if any(value is not None for value in (l1, beacon, l2, l2_blocks, archive, from_l1, options)):
            raise InputError("a witness is read alone: give no other source and no options")
        proven = WitnessRun(os.fspath(witness), chain_of(chain), from_l2, to_l2)
        return Derivation(proven, ProgressBar(progress, proven.first, proven.last), lambda block: block.number)
    if from_l2 is None:
        raise InputError("give from_l2, the safe head to begin with")
    source = L1Source(words_of(chain_of(chain)), l1, beacon, _text(archive), timeout, options or {})
    run = DerivationRun(source, from_l2, to_l2, l2, _text(l2_blocks), from_l1)
    return Derivation(run, ProgressBar(progress, from_l2, to_l2), lambda block: block.number)


aderive = derive
"""Derive for an `async for` loop: the same function as `derive`, whose result serves both kinds of loops."""


def batches(
    chain: str | Chain,
    *,
    from_l1: int,
    to_l1: int,
    l1: str | None = None,
    beacon: str | None = None,
    archive: Path | None = None,
    timeout: float | None = 60.0,
    progress: bool | None = None,
    options: Mapping[str, object] | None = None,
) -> Stream[BatchSummary]:
    """List every batch in a range of L1 blocks, both ends included, in the order in which their channels end.

    No L2 is needed, and no validity is checked: what is dropped before that, such as frames and channels, is in `drops`
    of the result. Reading begins without open channels, with the batcher of the genesis config and the updates in the
    range. The other arguments are those of `derive`, and so are the errors."""
    from rollup_node.tools.api.run import L1Source, ListingRun

    source = L1Source(words_of(chain_of(chain)), l1, beacon, _text(archive), timeout, options or {})
    return Stream(ListingRun(source, from_l1, to_l1), ProgressBar(progress, from_l1 - 1, to_l1), _inclusion)


def _inclusion(batch: BatchSummary) -> int:
    return batch.inclusion or 0


def _text(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)
