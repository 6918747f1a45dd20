"""Instructions that read the call, the transaction and the block; calls, contract creations and SELFDESTRUCT.

A call is left in `frame.pending` for the interpreter."""

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.evm.call_frame import MAX_DEPTH, CallFrame, CallMessage, ExceptionalHalt, OutOfGas

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


CREATE_GAS = 32_000
DELEGATION_PREFIX = b"\xef\x01\x00"
MAX_NONCE = (1 << 64) - 1
_VALUE_GAS = 9000
_NEW_ACCOUNT_GAS = 25_000
_STIPEND = 2300


def delegation_target(code: bytes) -> Address | None:
    """Return the address that an account's code delegates to, or None for other code (EIP-7702)."""
    return code[3:] if len(code) == 23 and code.startswith(DELEGATION_PREFIX) else None


def created_address(creator: Address, nonce: int) -> Address:
    """Return the address of a contract created with CREATE or by a transaction."""
    return keccak256(rlp.encode_list((rlp.encode_bytes(creator), rlp.encode_int(nonce))))[12:]


def call(frame: CallFrame, stack: list[int], _: int) -> None:
    """CALL."""
    gas, target, value = stack.pop(), to_address(stack.pop()), stack.pop()
    if value:
        frame.require_writable()
    _start_call(frame, stack, gas, target, value, address=target, caller=frame.message.address, transfers=True)


def callcode(frame: CallFrame, stack: list[int], _: int) -> None:
    """CALLCODE."""
    gas, target, value = stack.pop(), to_address(stack.pop()), stack.pop()
    own = frame.message.address
    _start_call(frame, stack, gas, target, value, address=own, caller=own)


def delegatecall(frame: CallFrame, stack: list[int], _: int) -> None:
    """DELEGATECALL (EIP-7)."""
    gas, target = stack.pop(), to_address(stack.pop())
    message = frame.message
    _start_call(frame, stack, gas, target, None, address=message.address, caller=message.caller)


def staticcall(frame: CallFrame, stack: list[int], _: int) -> None:
    """STATICCALL (EIP-214)."""
    gas, target = stack.pop(), to_address(stack.pop())
    _start_call(
        frame, stack, gas, target, 0, address=target, caller=frame.message.address, transfers=True, is_static=True
    )


def _start_call(
    frame: CallFrame,
    stack: list[int],
    wanted: int,
    target: Address,
    value: int | None,
    *,
    address: Address,
    caller: Address,
    transfers: bool = False,
    is_static: bool = False,
) -> None:
    """Make a call of any kind. DELEGATECALL has no `value`: the frame's own is passed on without a transfer."""
    data_at, data_size, returns_at, returns_size = stack.pop(), stack.pop(), stack.pop(), stack.pop()
    frame.expand(data_at, data_size)
    frame.expand(returns_at, returns_size)
    frame.access_account(target)
    code = _code_of(frame, target)
    if value:
        is_new = transfers and not frame.state.is_alive(target)
        frame.charge(_VALUE_GAS + (_NEW_ACCOUNT_GAS if is_new else 0))
    gas = min(wanted, frame.gas - frame.gas // 64)  # EIP-150: a caller keeps a 64th
    frame.gas -= gas
    if value:
        gas += _STIPEND  # free for the caller
    message = frame.message
    frame.returned = b""
    if message.depth >= MAX_DEPTH or (value and frame.state.balance(message.address) < value):
        # The call fails without running, and returns all of its gas, the stipend included.
        frame.gas += gas
        stack.append(0)
        return
    frame.pending = CallMessage(
        caller=caller,
        address=address,
        code_address=target,
        code=code,
        value=message.value if value is None else value,
        data=frame.read(data_at, data_size),
        gas=gas,
        depth=message.depth + 1,
        is_static=message.is_static or is_static,
        transfers=transfers,
        returns_at=returns_at,
        returns_size=returns_size,
    )


def _code_of(frame: CallFrame, target: Address) -> bytes:
    """Return the code of a call's target; following a delegation is charged as an access (EIP-7702)."""
    code = frame.state.code(target)
    if frame.environment.rules.delegations:
        delegate = delegation_target(code)
        if delegate is not None:
            frame.access_account(delegate)
            return frame.state.code(delegate)
    return code


def create(frame: CallFrame, stack: list[int], _: int) -> None:
    """CREATE."""
    value, offset, size = stack.pop(), stack.pop(), stack.pop()
    init_code = _init_code(frame, offset, size, hash_gas=0)
    address = created_address(frame.message.address, frame.state.nonce(frame.message.address))
    _start_creation(frame, stack, value, init_code, address)


def create2(frame: CallFrame, stack: list[int], _: int) -> None:
    """CREATE2 (EIP-1014)."""
    value, offset, size, salt = stack.pop(), stack.pop(), stack.pop(), stack.pop()
    init_code = _init_code(frame, offset, size, hash_gas=6)
    preimage = b"\xff" + frame.message.address + salt.to_bytes(32, "big") + keccak256(init_code)
    _start_creation(frame, stack, value, init_code, keccak256(preimage)[12:])


def _init_code(frame: CallFrame, offset: int, size: int, hash_gas: int) -> bytes:
    frame.require_writable()
    rules = frame.environment.rules
    if rules.max_init_code is not None and size > rules.max_init_code:
        raise OutOfGas("out of gas: init code too large")
    frame.charge((hash_gas + rules.init_code_word_gas) * ((size + 31) >> 5))
    return frame.read(offset, size)


def _start_creation(frame: CallFrame, stack: list[int], value: int, init_code: bytes, address: Address) -> None:
    state, creator = frame.state, frame.message.address
    frame.returned = b""
    nonce = state.nonce(creator)
    if frame.message.depth >= MAX_DEPTH or state.balance(creator) < value or nonce == MAX_NONCE:
        stack.append(0)
        return
    gas = frame.gas - frame.gas // 64
    frame.gas -= gas
    # Both last even if the creation fails: EIP-2929 for the address, the yellow paper for the nonce.
    state.warm_up(address)
    state.set_nonce(creator, nonce + 1)
    frame.pending = CallMessage(
        caller=creator,
        address=address,
        code_address=address,
        code=init_code,
        value=value,
        data=b"",
        gas=gas,
        depth=frame.message.depth + 1,
        creates=True,
    )


def selfdestruct_before_cancun(frame: CallFrame, stack: list[int], _: int) -> None:
    """SELFDESTRUCT before EIP-6780."""
    beneficiary, balance = _prepare_selfdestruct(frame, stack)
    state, own = frame.state, frame.message.address
    # In this order a contract that names itself as beneficiary burns its balance.
    state.add_balance(beneficiary, balance)
    state.subtract_balance(own, state.balance(own))
    state.mark_destroyed(own)
    frame.finish()


def selfdestruct(frame: CallFrame, stack: list[int], _: int) -> None:
    """SELFDESTRUCT from EIP-6780 on: removes only accounts created in the same transaction."""
    beneficiary, balance = _prepare_selfdestruct(frame, stack)
    state, own = frame.state, frame.message.address
    state.subtract_balance(own, balance)
    state.add_balance(beneficiary, balance)
    frame.environment.log_transfer(own, beneficiary, balance)
    if state.is_created(own):
        # Only not zero where the contract is its own beneficiary.
        state.subtract_balance(own, state.balance(own))
        state.mark_destroyed(own)
    frame.finish()


def _prepare_selfdestruct(frame: CallFrame, stack: list[int]) -> tuple[Address, int]:
    """Charge the gas; the beneficiary, and the balance in wei."""
    frame.require_writable()
    beneficiary, state = to_address(stack.pop()), frame.state
    if state.warm_up(beneficiary):
        frame.charge(2600)
    balance = state.balance(frame.message.address)
    if balance and not state.is_alive(beneficiary):
        frame.charge(_NEW_ACCOUNT_GAS)
    return beneficiary, balance


def invalid(frame: CallFrame, stack: list[int], _: int) -> None:
    """INVALID (EIP-141)."""
    raise ExceptionalHalt("invalid opcode 0xfe")
