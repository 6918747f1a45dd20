"""The instruction table: opcode, static gas, stack items and function, and the additions of later forks.

A function is `operation(frame, stack, argument)`, named as in the execution specs (EELS)."""

from rollup_node.tools.devnet.evm import data_instructions as data
from rollup_node.tools.devnet.evm import system_instructions as system
from rollup_node.tools.devnet.evm.call_frame import Instruction, InstructionSet

_ARITHMETIC = {
    0x01: Instruction(3, 2, 1, data.add),
    0x02: Instruction(5, 2, 1, data.mul),
    0x03: Instruction(3, 2, 1, data.sub),
    0x04: Instruction(5, 2, 1, data.div),
    0x05: Instruction(5, 2, 1, data.sdiv),
    0x06: Instruction(5, 2, 1, data.mod),
    0x07: Instruction(5, 2, 1, data.smod),
    0x08: Instruction(8, 3, 1, data.addmod),
    0x09: Instruction(8, 3, 1, data.mulmod),
    0x0A: Instruction(10, 2, 1, data.exp),
    0x0B: Instruction(5, 2, 1, data.signextend),
    0x10: Instruction(3, 2, 1, data.less_than),
    0x11: Instruction(3, 2, 1, data.greater_than),
    0x12: Instruction(3, 2, 1, data.signed_less_than),
    0x13: Instruction(3, 2, 1, data.signed_greater_than),
    0x14: Instruction(3, 2, 1, data.equal),
    0x15: Instruction(3, 1, 1, data.is_zero),
    0x16: Instruction(3, 2, 1, data.bitwise_and),
    0x17: Instruction(3, 2, 1, data.bitwise_or),
    0x18: Instruction(3, 2, 1, data.bitwise_xor),
    0x19: Instruction(3, 1, 1, data.bitwise_not),
    0x1A: Instruction(3, 2, 1, data.get_byte),
    0x1B: Instruction(3, 2, 1, data.bitwise_shl),
    0x1C: Instruction(3, 2, 1, data.bitwise_shr),
    0x1D: Instruction(3, 2, 1, data.bitwise_sar),
    0x20: Instruction(30, 2, 1, data.keccak),
}
_CONTEXT = {
    0x30: Instruction(2, 0, 1, system.address),
    0x31: Instruction(0, 1, 1, system.balance),
    0x32: Instruction(2, 0, 1, system.origin),
    0x33: Instruction(2, 0, 1, system.caller),
    0x34: Instruction(2, 0, 1, system.callvalue),
    0x35: Instruction(3, 1, 1, system.calldataload),
    0x36: Instruction(2, 0, 1, system.calldatasize),
    0x37: Instruction(3, 3, 0, system.calldatacopy),
    0x38: Instruction(2, 0, 1, system.codesize),
    0x39: Instruction(3, 3, 0, system.codecopy),
    0x3A: Instruction(2, 0, 1, system.gas_price),
    0x3B: Instruction(0, 1, 1, system.extcodesize),
    0x3C: Instruction(0, 4, 0, system.extcodecopy),
    0x3D: Instruction(2, 0, 1, system.returndatasize),
    0x3E: Instruction(3, 3, 0, system.returndatacopy),
    0x3F: Instruction(0, 1, 1, system.extcodehash),
    0x40: Instruction(20, 1, 1, system.block_hash),
    0x41: Instruction(2, 0, 1, system.coinbase),
    0x42: Instruction(2, 0, 1, system.timestamp),
    0x43: Instruction(2, 0, 1, system.number),
    0x44: Instruction(2, 0, 1, system.prev_randao),
    0x45: Instruction(2, 0, 1, system.gas_limit),
    0x46: Instruction(2, 0, 1, system.chain_id),
    0x47: Instruction(5, 0, 1, system.self_balance),
    0x48: Instruction(2, 0, 1, system.base_fee),
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
        0x49: Instruction(3, 1, 1, system.blob_hash),
        0x4A: Instruction(2, 0, 1, system.blob_base_fee),
        0x5C: Instruction(100, 1, 1, data.tload),
        0x5D: Instruction(100, 2, 0, data.tstore),
        0x5E: Instruction(3, 3, 0, data.mcopy),
        0xFF: Instruction(5000, 1, 0, system.selfdestruct, ends_block=True),
    }
)
OSAKA = CANCUN.extended({0x1E: Instruction(5, 1, 1, data.count_leading_zeros)})
AMSTERDAM = OSAKA.extended({0x4B: Instruction(2, 0, 1, system.slot_number)})
