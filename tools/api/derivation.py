"""Derivation in the program's own process: `derive` and `aderive`."""

import os
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rollup_node.tools.api.background import Background, Ended
from rollup_node.tools.api.blocks import Block, Drop
from rollup_node.tools.api.chains import Chain, chain_of, words_of
from rollup_node.tools.api.progress import ProgressBar

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from rollup_node.tools.api.run import DerivationRun

Path = str | os.PathLike[str]


def derive(
    chain: str | Chain,
    *,
    from_l2: int,
    to_l2: int | None = None,
    l1: str | None = None,
    beacon: str | None = None,
    l2: str | None = None,
    l2_blocks: Path | None = None,
    archive: Path | None = None,
    from_l1: int | None = None,
    timeout: float | None = 60.0,
    progress: bool | None = None,
    options: Mapping[str, object] | None = None,
) -> "Derivation":
    """Derive the L2 blocks after `from_l2`, the safe head to begin with, up to `to_l2`, or as far as L1 goes.

    `chain` is the name of a built-in network, or a `Chain`. L1 is read from the URLs `l1` and `beacon`; or from
    `archive` alone, which is a folder of `rollup-node history run --archive`, or of recorded L1 data. With both, the
    archive, which may be an empty folder, is read before an endpoint is asked, and keeps what L1 has finalized.

    The L2 source is `l2`, the URL of an execution engine, or the file `l2_blocks`, which is that of the recorded data
    by default. It says what the safe head is, and each derived block is compared with its block. Without a source
    `from_l2` must be the chain's genesis; each batch is then taken to have the parent that it claims, and no block to
    be invalid in execution. `from_l1` is the L1 block to begin reading with; by default the one where a node would
    begin, or with a file of L2 blocks a channel timeout before the safe head's origin.

    After `timeout` seconds without progress the derivation fails, with None it waits. `progress` shows a bar, which a
    notebook has by default if tqdm is installed. `options` are any of the node's options by name, such as
    {"l1.rpc-rate-limit": 20}.

    The result gives `Block`s to a `for` or an `async for` loop. Derivation runs in a thread ahead of the loop by a few
    blocks, and ends with it: at the last block, with `break`, an exception or Ctrl-C, after which another call works.

    Raises InputError at once for arguments that are wrong, RangeError for a range before genesis. The loop raises
    EndpointError where an endpoint does not answer or has another chain, RangeError where the range goes beyond L1's
    head or the chain's end, DataError where data lack or contradict each other, and BlockDiffers after the first block
    that differs from the source's."""
    # Deferred: it takes longer than everything else here.
    from rollup_node.tools.api.run import DerivationRun, Request

    request = Request(
        words=words_of(chain_of(chain)),
        first=from_l2,
        last=to_l2,
        l1=l1,
        beacon=beacon,
        l2=l2,
        l2_blocks=None if l2_blocks is None else os.fspath(l2_blocks),
        archive=None if archive is None else os.fspath(archive),
        base=from_l1,
        timeout=timeout,
        options={} if options is None else options,
    )
    return Derivation(DerivationRun(request), ProgressBar(progress, from_l2, to_l2))


aderive = derive
"""Derive for an `async for` loop: the same function, whose result serves both kinds of loops."""


class Derivation:
    """A derivation that runs, which `derive` returns: the blocks for one `for` or `async for` loop.

    `last` is the block that was given last, `drops` what was dropped after it, once the loop has ended, and `warnings`
    what the result lacks. It is a context manager, which closes it."""

    def __init__(self, run: "DerivationRun", bar: ProgressBar) -> None:
        self.last: Block | None = None
        self._run, self._bar = run, bar
        self._background: Background[Block] = Background(run.main)
        # Also where the program ends before the loop does. Nothing of the thread refers to this object.
        self._stop = weakref.finalize(self, self._background.stop)

    @property
    def drops(self) -> tuple[Drop, ...]:
        """What was dropped after the last block; empty while the derivation runs."""
        return self._run.last_drops

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the result lacks, such as channels that were opened before the first L1 block that was read."""
        return tuple(self._run.outcome.warnings)

    def close(self) -> None:
        """End the derivation: nothing runs, and nothing is open. May be called several times."""
        self._stop()
        self._bar.close()

    def to_arrow(self) -> "pyarrow.Table":
        """Take all blocks that are left into an Arrow table. Raises InputError without pyarrow."""
        from rollup_node.tools.api.tables import arrow_table

        return arrow_table(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Take all blocks that are left into a pandas frame. Raises InputError without pandas."""
        from rollup_node.tools.api.tables import pandas_frame

        return pandas_frame(self)

    def to_polars(self) -> "polars.DataFrame":
        """Take all blocks that are left into a polars frame. Raises InputError without polars."""
        from rollup_node.tools.api.tables import polars_frame

        return polars_frame(self)

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        if not self._begin():
            raise StopIteration
        try:
            block = self._take(self._background.take())
        except BaseException:
            self.close()
            raise
        if block is None:
            raise StopIteration
        return block

    def __aiter__(self) -> AsyncIterator[Block]:
        return self

    async def __anext__(self) -> Block:
        if not self._begin():
            raise StopAsyncIteration
        try:
            block = self._take(await self._background.take_async())
        except BaseException:
            self.close()
            raise
        if block is None:
            raise StopAsyncIteration
        return block

    def __enter__(self) -> "Derivation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> "Derivation":
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.close()

    def _begin(self) -> bool:
        """Start the thread with the first block; False when it has ended."""
        if self._stop.alive and not self._background.is_started:
            self._background.start()
        return self._stop.alive

    def _take(self, result: Block | Ended) -> Block | None:
        """Return a block; None at the end. Raises what ended the derivation."""
        if isinstance(result, Ended):
            self.close()
            if result.error is not None:
                raise self._run.error_of(result.error, self.last) from None
            return None
        self.last = result
        self._bar.update(result.number)
        return result
