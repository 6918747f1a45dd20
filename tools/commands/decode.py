"""`rollup-node decode`: batches in files, decoded by the deriver's own parsers in this one process."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, TextIO

import msgspec
import orjson

from rollup_node.node.options.errors import did_you_mean
from rollup_node.node.setup.networks import find_network
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.node.system.standard_streams import StdoutError, discard_stdout
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.tools.commands.flags import FlagParser, block_number, chain_id, timestamp
from rollup_node.tools.commands.output_file import (
    CommandOutput,
    NotHex,
    TooLarge,
    open_output,
    read_content,
    shown_name,
)
from rollup_node.tools.inspect.batch_summary import DECODED, BlockNumbers, batch_values, block_numbers
from rollup_node.tools.inspect.decoding import READERS, Decoder, DecoderOutput, DecodingRules, FoundBatch
from rollup_node.tools.inspect.lazy_batches import LazyBlock, LazySpanBatch
from rollup_node.tools.inspect.row_formats import RowFormat, RowFormatter, shown_time

DESCRIPTION = """Decodes the batches in files of bytes or hex text and writes one line for each. Frames of several files
are joined by channel; the order of the files means nothing. What does not decode is reported on standard error with
file, offset and rule; the exit code is 1 if nothing was decoded. Rules that depend on time are taken in their widest
form unless --network or --fork-time is given; then by the time of --l1-time, or else of each channel's first batch."""

MAX_BYTES = {
    "transaction": 8_000_000,
    "blob": 1_000_000,
    "data": 8_000_000,
    "frames": 8_000_000,
    "channel": 32_000_000,
    "batch": 100_000_000,
    "raw-span": 100_000_000,
}
"""The longest content of a file of each kind."""

MAX_SHOWN_PER_RULE = 50
DEFAULT_BLOCK_TIME = 2
CHAIN_FLAGS = ("chain_id", "genesis_time", "block_time")


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when at least one batch was decoded."""
    flags = _parser().parse_all(arguments)
    rules, numbers = _rules(flags), _numbers(flags)
    with open_output(flags) as out:
        if flags.full and out.form is RowFormat.CSV:
            raise SetupError("--full has no place in a .csv file: name one that ends in .jsonl")
        return out.end(_decode(flags, rules, numbers, out))


def _decode(flags: argparse.Namespace, rules: DecodingRules, numbers: BlockNumbers | None, out: CommandOutput) -> int:
    file = None if out.file is None else _text_file(out.file.descriptor)
    output = DecodingOutput(out.form, flags.full, _missing(flags), numbers, file)
    try:
        for outcome in _outcomes(flags.files, flags.kind, rules, output):
            output.write(outcome)
        output.finish()
        if file is not None:
            file.close()
        sys.stdout.flush()
    except StdoutError as error:
        if not error.reader_is_gone:
            raise
        discard_stdout()
    except OSError as error:
        raise SetupError(f"--out: cannot write the results: {error.strerror}") from None
    return 0 if output.decoded else 1


def _parser() -> FlagParser:
    parser = FlagParser("decode", DESCRIPTION)
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="bytes, or hex text with or without 0x; - for standard input"
    )
    parser.add_argument(
        "--as",
        dest="kind",
        required=True,
        choices=tuple(READERS),
        help="a signed L1 transaction (as of eth_getRawTransactionByHash); a blob; a transaction's data or frames"
        " (version byte, then frames); a compressed channel body; a batch with its type byte; a span batch without it",
    )
    parser.add_argument("--network", metavar="NAME", help="a built-in network: chain id, times and forks are its own")
    parser.add_argument("--chain-id", type=chain_id, metavar="N", help="L2 chain id, for transactions of span batches")
    parser.add_argument("--genesis-time", type=timestamp, metavar="T", help="time of the L2 genesis block, default 0")
    parser.add_argument("--genesis-block", type=block_number, metavar="N", help="number of that block, default 0")
    parser.add_argument("--block-time", type=timestamp, metavar="S", help="seconds between L2 blocks, default 2")
    parser.add_argument(
        "--fork-time",
        action="append",
        default=[],
        metavar="NAME=T",
        help="when a fork activates (repeatable); forks before it without a time are active, those after it never",
    )
    parser.add_argument("--l1-time", type=timestamp, metavar="T", help="time of the L1 block at which all is read")
    parser.add_output()
    parser.add_argument("--full", action="store_true", help="with the blocks and their transactions")
    return parser


def _rules(flags: argparse.Namespace) -> DecodingRules:
    times: dict[str, int] = {}
    span, schedule = SpanRules(0, 0, DEFAULT_BLOCK_TIME), None
    if flags.network is not None:
        config = find_network(flags.network).config
        span = SpanRules(config.l2_chain_id, config.genesis.l2_time, config.block_time)
        times = dict(config.fork_times)
    constants = {name: getattr(flags, name) for name in CHAIN_FLAGS if getattr(flags, name) is not None}
    span = msgspec.structs.replace(span, **constants)
    times |= _fork_times(flags.fork_time)
    if times:
        last = max(index for index, name in enumerate(FORK_NAMES) if name in times)
        times = dict.fromkeys(FORK_NAMES[:last], 0) | times
        schedule = ForkSchedule(times, span.block_time, channel_timeout=300, max_sequencer_drift=600)
    return DecodingRules(span, schedule, flags.l1_time)


def _numbers(flags: argparse.Namespace) -> BlockNumbers | None:
    """Return what the numbers of L2 blocks follow from, None unless the genesis block is known."""
    block_time = flags.block_time
    if block_time == 0:
        raise SetupError("--block-time 0: blocks have at least one second between them")
    if flags.network is not None:
        of_network = block_numbers(find_network(flags.network).config)
        changes = (flags.genesis_block, flags.genesis_time, block_time)
        pairs = zip(of_network, changes, strict=True)
        return BlockNumbers(*(default if value is None else value for default, value in pairs))
    if flags.genesis_time is None:
        return None
    return BlockNumbers(flags.genesis_block or 0, flags.genesis_time, block_time or DEFAULT_BLOCK_TIME)


def _fork_times(texts: Sequence[str]) -> dict[str, int]:
    times = {}
    for text in texts:
        name, equals, time = text.partition("=")
        name = name.lower()
        if not equals or not (time.isascii() and time.isdigit() and len(time) < 20):
            raise SetupError(f"--fork-time {text[:80]!r} is not NAME=T, a fork and a time in seconds")
        if name not in FORK_NAMES:
            forks = ", ".join(FORK_NAMES)
            raise SetupError(f"unknown fork {name[:80]!r}{did_you_mean(name, FORK_NAMES)}; forks are {forks}")
        times[name] = int(time)
    return times


def _missing(flags: argparse.Namespace) -> str:
    """Return the flags without which span batches are decoded incompletely, and the consequences."""
    if flags.network is not None:
        return ""
    lacks = {"chain_id": "the transactions' hashes are those of chain id 0", "genesis_time": "times count from genesis"}
    missing = [
        f"{text} (no --{name.replace('_', '-')})" for name, text in lacks.items() if getattr(flags, name) is None
    ]
    return ", ".join(missing)


def _outcomes(
    files: Sequence[str], kind: str, rules: DecodingRules, output: "DecodingOutput"
) -> Iterator[DecoderOutput]:
    decoder = Decoder(rules, kind)
    for path in files:
        name = shown_name(path)
        try:
            content = read_content(path, MAX_BYTES[kind])
        except TooLarge as error:
            output.error(f"{name}: offset {error.limit}: {error}, the limit for such a file")
        except NotHex as error:
            output.error(f"{name}: offset {error.offset}: {error}")
        else:
            yield from decoder.read(name, content)
            del content
    yield from decoder.finish()


class DecodingOutput:
    """Writes batches to a file, or to standard output if that is None, and errors to standard error.

    `missing` names what makes span batches incomplete; `numbers` give blocks their numbers."""

    def __init__(
        self, form: RowFormat, full: bool, missing: str, numbers: BlockNumbers | None, file: TextIO | None
    ) -> None:
        self.decoded = False
        self._form, self._full, self._numbers = form, full, numbers
        self._rows = RowFormatter(form, DECODED)
        self._target = sys.stdout if file is None else file
        self._missing = missing
        self._error_counts: Counter[str] = Counter()

    def write(self, outcome: DecoderOutput) -> None:
        """Write a batch or a failure; only the first failures by each rule."""
        if isinstance(outcome, FoundBatch):
            self._batch(outcome)
            return
        self._error_counts[outcome.rule] += 1
        if self._error_counts[outcome.rule] <= MAX_SHOWN_PER_RULE:
            self.error(f"{outcome.position}: {outcome.text}")

    def finish(self) -> None:
        """Report how many failures were left out."""
        for rule, count in self._error_counts.items():
            if count > MAX_SHOWN_PER_RULE:
                self.error(f"{count - MAX_SHOWN_PER_RULE} more like this [{rule}]")

    def error(self, text: str) -> None:
        """Write one line to standard error."""
        print(f"{PROGRAM}: {text}", file=sys.stderr)

    def _batch(self, decoded: FoundBatch) -> None:
        batch = decoded.batch
        if isinstance(batch, LazySpanBatch) and self._missing:
            self.error(f"warning: of span batches {self._missing}")
            self._missing = ""
        self.decoded = True
        summary = batch.summary(decoded.position.channel, decoded.channel_bytes)
        summary = msgspec.structs.replace(summary, l1_transactions=decoded.position.transactions)
        file = self._target
        row = self._rows.row(batch_values(summary, self._numbers))
        if not self._full:
            file.write(row)
        elif self._form is not RowFormat.JSON:
            file.write(row)
            _write_text(batch.blocks(), file, self._numbers)
        else:
            file.write(row[: -len("}\n")] + ',"l2_blocks":[')
            _write_json(batch.blocks(), file, self._numbers)
            file.write("]}\n")


def _text_file(descriptor: int) -> TextIO:
    return TextIOWrapper(BufferedWriter(FileIO(descriptor, "w", closefd=False)), "utf-8")


def _write_json(blocks: Iterator[LazyBlock], file: TextIO, numbers: BlockNumbers | None) -> None:
    """Write blocks as JSON objects, piece by piece: a batch may be larger than the memory."""
    write, between = file.write, ""
    for block in blocks:
        epoch: dict[str, Any] = {"number": block.epoch_number}
        values: dict[str, Any] = {"timestamp": block.timestamp, "epoch": epoch}
        number = None if numbers is None else numbers.at(block.timestamp)
        if number is not None:
            values = {"number": number, **values}
        if block.epoch_hash is not None:
            epoch["hash"] = f"0x{block.epoch_hash.hex()}"
        if block.parent_hash is not None:
            values["parent_hash"] = f"0x{block.parent_hash.hex()}"
        write(between + orjson.dumps(values).decode()[:-1] + ',"transactions":[')
        comma = ""
        for transaction in block.transactions:
            write(f'{comma}"0x{transaction.hex()}"')
            comma = ","
        write("]}")
        between = ","


def _write_text(blocks: Iterator[LazyBlock], file: TextIO, numbers: BlockNumbers | None) -> None:
    for block in blocks:
        number = None if numbers is None else numbers.at(block.timestamp)
        name = f"block of time {block.timestamp}" if number is None else f"L2 {number}  time {block.timestamp}"
        time = "" if number is None else f" {shown_time(block.timestamp)}"
        file.write(f"  {name}{time}  epoch {block.epoch_number}\n")
        for transaction in block.transactions:
            file.write(f"    0x{transaction.hex()}\n")
