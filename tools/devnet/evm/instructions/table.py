"""The instruction table: opcode, static gas, stack items and function, and the additions of later forks."""

from rollup_node.tools.devnet.evm.call_frame import Instruction, InstructionSet
from rollup_node.tools.devnet.evm.instructions import arithmetic, data, environment, system

_ARITHMETIC = {
    0x01: Instruction(3, 2, 1, arithmetic.add),
    0x02: Instruction(5, 2, 1, arithmetic.mul),
    0x03: Instruction(3, 2, 1, arithmetic.sub),
    0x04: Instruction(5, 2, 1, arithmetic.div),
    0x05: Instruction(5, 2, 1, arithmetic.sdiv),
    0x06: Instruction(5, 2, 1, arithmetic.mod),
    0x07: Instruction(5, 2, 1, arithmetic.smod),
    0x08: Instruction(8, 3, 1, arithmetic.addmod),
    0x09: Instruction(8, 3, 1, arithmetic.mulmod),
    0x0A: Instruction(10, 2, 1, arithmetic.exp),
    0x0B: Instruction(5, 2, 1, arithmetic.signextend),
    0x10: Instruction(3, 2, 1, arithmetic.less_than),
    0x11: Instruction(3, 2, 1, arithmetic.greater_than),
    0x12: Instruction(3, 2, 1, arithmetic.signed_less_than),
    0x13: Instruction(3, 2, 1, arithmetic.signed_greater_than),
    0x14: Instruction(3, 2, 1, arithmetic.equal),
    0x15: Instruction(3, 1, 1, arithmetic.is_zero),
    0x16: Instruction(3, 2, 1, arithmetic.bitwise_and),
    0x17: Instruction(3, 2, 1, arithmetic.bitwise_or),
    0x18: Instruction(3, 2, 1, arithmetic.bitwise_xor),
    0x19: Instruction(3, 1, 1, arithmetic.bitwise_not),
    0x1A: Instruction(3, 2, 1, arithmetic.get_byte),
    0x1B: Instruction(3, 2, 1, arithmetic.bitwise_shl),
    0x1C: Instruction(3, 2, 1, arithmetic.bitwise_shr),
    0x1D: Instruction(3, 2, 1, arithmetic.bitwise_sar),
    0x20: Instruction(30, 2, 1, arithmetic.keccak),
}
_CONTEXT = {
    0x30: Instruction(2, 0, 1, environment.address),
    0x31: Instruction(0, 1, 1, environment.balance),
    0x32: Instruction(2, 0, 1, environment.origin),
    0x33: Instruction(2, 0, 1, environment.caller),
    0x34: Instruction(2, 0, 1, environment.callvalue),
    0x35: Instruction(3, 1, 1, environment.calldataload),
    0x36: Instruction(2, 0, 1, environment.calldatasize),
    0x37: Instruction(3, 3, 0, environment.calldatacopy),
    0x38: Instruction(2, 0, 1, environment.codesize),
    0x39: Instruction(3, 3, 0, environment.codecopy),
    0x3A: Instruction(2, 0, 1, environment.gas_price),
    0x3B: Instruction(0, 1, 1, environment.extcodesize),
    0x3C: Instruction(0, 4, 0, environment.extcodecopy),
    0x3D: Instruction(2, 0, 1, environment.returndatasize),
    0x3E: Instruction(3, 3, 0, environment.returndatacopy),
    0x3F: Instruction(0, 1, 1, environment.extcodehash),
    0x40: Instruction(20, 1, 1, environment.block_hash),
    0x41: Instruction(2, 0, 1, environment.coinbase),
    0x42: Instruction(2, 0, 1, environment.timestamp),
    0x43: Instruction(2, 0, 1, environment.number),
    0x44: Instruction(2, 0, 1, environment.prev_randao),
    0x45: Instruction(2, 0, 1, environment.gas_limit),
    0x46: Instruction(2, 0, 1, environment.chain_id),
    0x47: Instruction(5, 0, 1, environment.self_balance),
    0x48: Instruction(2, 0, 1, environment.base_fee),
}
_STACK_STORAGE_FLOW = {
    0x00: Instruction(0, 0, 0, data.stop, ends_block=True),
    0x50: Instruction(2, 1, 0, data.pop),
    0x51: Instruction(3, 1, 1, data.mload),
    0x52: Instruction(3, 2, 0, data.mstore),
    0x53: Instruction(3, 2, 0, data.mstore8),
    0x54: Instruction(0, 1, 1, data.sload),
    0x55: Instruction(0, 2, 0, data.sstore, ends_block=True),
    0x56: Instruction(8, 1, 0, data.jump, ends_block=True),
    0x57: Instruction(10, 2, 0, data.jumpi, ends_block=True),
    0x58: Instruction(2, 0, 1, data.pc),
    0x59: Instruction(2, 0, 1, data.msize),
    0x5A: Instruction(2, 0, 1, data.gas_left, ends_block=True),
    **{0x60 + size: Instruction(3, 0, 1, None) for size in range(32)},
    **{0x80 + depth: Instruction(3, depth + 1, depth + 2, data.dup, False, -depth - 1) for depth in range(16)},
    **{0x90 + depth: Instruction(3, depth + 2, depth + 2, data.swap, False, -depth - 2) for depth in range(16)},
    **{0xA0 + topics: Instruction(375 + 375 * topics, 2 + topics, 0, data.log, False, topics) for topics in range(5)},
    0xF3: Instruction(0, 2, 0, data.return_, ends_block=True),
    0xFD: Instruction(0, 2, 0, data.revert, ends_block=True),
}
_CALLS = {
    0xF0: Instruction(system.CREATE_GAS, 3, 1, system.create, ends_block=True),
    0xF1: Instruction(0, 7, 1, system.call, ends_block=True),
    0xF2: Instruction(0, 7, 1, system.callcode, ends_block=True),
    0xF4: Instruction(0, 6, 1, system.delegatecall, ends_block=True),
    0xF5: Instruction(system.CREATE_GAS, 4, 1, system.create2, ends_block=True),
    0xFA: Instruction(0, 6, 1, system.staticcall, ends_block=True),
    0xFE: Instruction(0, 0, 0, system.invalid, ends_block=True),
    0xFF: Instruction(5000, 1, 0, system.selfdestruct_before_cancun, ends_block=True),
}

PARIS = InstructionSet(_ARITHMETIC | _CONTEXT | _STACK_STORAGE_FLOW | _CALLS)
SHANGHAI = PARIS.extended({0x5F: Instruction(2, 0, 1, None)})
CANCUN = SHANGHAI.extended(
    {
        0x49: Instruction(3, 1, 1, environment.blob_hash),
        0x4A: Instruction(2, 0, 1, environment.blob_base_fee),
        0x5C: Instruction(100, 1, 1, data.tload),
        0x5D: Instruction(100, 2, 0, data.tstore),
        0x5E: Instruction(3, 3, 0, data.mcopy),
        0xFF: Instruction(5000, 1, 0, system.selfdestruct, ends_block=True),
    }
)
OSAKA = CANCUN.extended({0x1E: Instruction(5, 1, 1, arithmetic.count_leading_zeros)})
AMSTERDAM = OSAKA.extended({0x4B: Instruction(2, 0, 1, environment.slot_number)})
