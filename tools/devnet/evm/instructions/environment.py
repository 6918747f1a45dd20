"""Instructions that read the call, the transaction, the block and other accounts."""

from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.evm.call_frame import CallFrame, ExceptionalHalt

_ADDRESS_MASK = (1 << 160) - 1


def to_address(word: int) -> Address:
    """Return the address in the low 20 bytes of a word."""
    return (word & _ADDRESS_MASK).to_bytes(20, "big")


def address(frame: CallFrame, stack: list[int], _: int) -> None:
    """ADDRESS."""
    stack.append(int.from_bytes(frame.message.address, "big"))


def balance(frame: CallFrame, stack: list[int], _: int) -> None:
    """BALANCE."""
    address = to_address(stack[-1])
    frame.access_account(address)
    stack[-1] = frame.state.balance(address)


def self_balance(frame: CallFrame, stack: list[int], _: int) -> None:
    """SELFBALANCE."""
    stack.append(frame.state.balance(frame.message.address))


def origin(frame: CallFrame, stack: list[int], _: int) -> None:
    """ORIGIN."""
    stack.append(int.from_bytes(frame.environment.origin, "big"))


def caller(frame: CallFrame, stack: list[int], _: int) -> None:
    """CALLER."""
    stack.append(int.from_bytes(frame.message.caller, "big"))


def callvalue(frame: CallFrame, stack: list[int], _: int) -> None:
    """CALLVALUE."""
    stack.append(frame.message.value)


def calldataload(frame: CallFrame, stack: list[int], _: int) -> None:
    """CALLDATALOAD, zero-padded."""
    offset = stack[-1]
    piece = frame.message.data[offset : offset + 32]
    stack[-1] = int.from_bytes(piece, "big") << 8 * (32 - len(piece))


def calldatasize(frame: CallFrame, stack: list[int], _: int) -> None:
    """CALLDATASIZE."""
    stack.append(len(frame.message.data))


def calldatacopy(frame: CallFrame, stack: list[int], _: int) -> None:
    """CALLDATACOPY."""
    _copy(frame, stack, frame.message.data)


def codesize(frame: CallFrame, stack: list[int], _: int) -> None:
    """CODESIZE."""
    stack.append(len(frame.message.code))


def codecopy(frame: CallFrame, stack: list[int], _: int) -> None:
    """CODECOPY."""
    _copy(frame, stack, frame.message.code)


def extcodesize(frame: CallFrame, stack: list[int], _: int) -> None:
    """EXTCODESIZE."""
    address = to_address(stack[-1])
    frame.access_account(address)
    stack[-1] = len(frame.state.code(address))


def extcodecopy(frame: CallFrame, stack: list[int], _: int) -> None:
    """EXTCODECOPY."""
    address = to_address(stack.pop())
    frame.access_account(address)
    _copy(frame, stack, frame.state.code(address))


def extcodehash(frame: CallFrame, stack: list[int], _: int) -> None:
    """EXTCODEHASH; 0 for an empty account (EIP-1052)."""
    address = to_address(stack[-1])
    frame.access_account(address)
    alive = frame.state.is_alive(address)
    stack[-1] = int.from_bytes(frame.state.code_hash(address), "big") if alive else 0


def returndatasize(frame: CallFrame, stack: list[int], _: int) -> None:
    """RETURNDATASIZE."""
    stack.append(len(frame.returned))


def returndatacopy(frame: CallFrame, stack: list[int], _: int) -> None:
    """RETURNDATACOPY. Raises ExceptionalHalt beyond the return data (EIP-211)."""
    if stack[-2] + stack[-3] > len(frame.returned):
        raise ExceptionalHalt("return data out of bounds")
    _copy(frame, stack, frame.returned)


def gas_price(frame: CallFrame, stack: list[int], _: int) -> None:
    """GASPRICE."""
    stack.append(frame.environment.gas_price)


def block_hash(frame: CallFrame, stack: list[int], _: int) -> None:
    """BLOCKHASH; 0 outside of the last 256 blocks."""
    block, number = frame.environment.block, stack[-1]
    known = block.number - 256 <= number < block.number
    stack[-1] = int.from_bytes(block.block_hash(number), "big") if known else 0


def coinbase(frame: CallFrame, stack: list[int], _: int) -> None:
    """COINBASE."""
    stack.append(int.from_bytes(frame.environment.block.coinbase, "big"))


def timestamp(frame: CallFrame, stack: list[int], _: int) -> None:
    """TIMESTAMP."""
    stack.append(frame.environment.block.timestamp)


def number(frame: CallFrame, stack: list[int], _: int) -> None:
    """Push the block number: NUMBER."""
    stack.append(frame.environment.block.number)


def prev_randao(frame: CallFrame, stack: list[int], _: int) -> None:
    """PREVRANDAO (EIP-4399)."""
    stack.append(int.from_bytes(frame.environment.block.prev_randao, "big"))


def gas_limit(frame: CallFrame, stack: list[int], _: int) -> None:
    """GASLIMIT."""
    stack.append(frame.environment.block.gas_limit)


def chain_id(frame: CallFrame, stack: list[int], _: int) -> None:
    """CHAINID."""
    stack.append(frame.environment.block.chain_id)


def base_fee(frame: CallFrame, stack: list[int], _: int) -> None:
    """BASEFEE."""
    stack.append(frame.environment.block.base_fee)


def blob_hash(frame: CallFrame, stack: list[int], _: int) -> None:
    """BLOBHASH; 0 beyond the blobs (EIP-4844)."""
    hashes, index = frame.environment.blob_hashes, stack[-1]
    stack[-1] = int.from_bytes(hashes[index], "big") if index < len(hashes) else 0


def blob_base_fee(frame: CallFrame, stack: list[int], _: int) -> None:
    """BLOBBASEFEE (EIP-7516)."""
    stack.append(frame.environment.block.blob_base_fee)


def slot_number(frame: CallFrame, stack: list[int], _: int) -> None:
    """SLOTNUM (EIP-7843)."""
    stack.append(frame.environment.block.slot_number)


def _copy(frame: CallFrame, stack: list[int], source: bytes) -> None:
    """Copy from `source`, zero-padded, to memory."""
    target, offset, size = stack.pop(), stack.pop(), stack.pop()
    frame.charge(3 * ((size + 31) >> 5))
    frame.expand(target, size)
    if size:
        frame.memory[target : target + size] = source[offset : offset + size].ljust(size, b"\0")
