"""THE INSTRUCTION TABLE: opcode, fixed gas, stack items, function; and what later forks add to it."""

from rollup_node.tools.devnet.evm.code_analysis import Instruction, InstructionSet
from rollup_node.tools.devnet.evm.instructions import arithmetic, data, environment, system

_ARITHMETIC = {
    0x01: Instruction(3, 2, 1, arithmetic.add),
    0x02: Instruction(5, 2, 1, arithmetic.multiply),
    0x03: Instruction(3, 2, 1, arithmetic.subtract),
    0x04: Instruction(5, 2, 1, arithmetic.divide),
    0x05: Instruction(5, 2, 1, arithmetic.divide_signed),
    0x06: Instruction(5, 2, 1, arithmetic.modulo),
    0x07: Instruction(5, 2, 1, arithmetic.modulo_signed),
    0x08: Instruction(8, 3, 1, arithmetic.add_modulo),
    0x09: Instruction(8, 3, 1, arithmetic.multiply_modulo),
    0x0A: Instruction(10, 2, 1, arithmetic.exponentiate),
    0x0B: Instruction(5, 2, 1, arithmetic.extend_sign),
    0x10: Instruction(3, 2, 1, arithmetic.less),
    0x11: Instruction(3, 2, 1, arithmetic.greater),
    0x12: Instruction(3, 2, 1, arithmetic.less_signed),
    0x13: Instruction(3, 2, 1, arithmetic.greater_signed),
    0x14: Instruction(3, 2, 1, arithmetic.equal),
    0x15: Instruction(3, 1, 1, arithmetic.is_zero),
    0x16: Instruction(3, 2, 1, arithmetic.bit_and),
    0x17: Instruction(3, 2, 1, arithmetic.bit_or),
    0x18: Instruction(3, 2, 1, arithmetic.bit_xor),
    0x19: Instruction(3, 1, 1, arithmetic.bit_not),
    0x1A: Instruction(3, 2, 1, arithmetic.byte_at),
    0x1B: Instruction(3, 2, 1, arithmetic.shift_left),
    0x1C: Instruction(3, 2, 1, arithmetic.shift_right),
    0x1D: Instruction(3, 2, 1, arithmetic.shift_right_signed),
    0x20: Instruction(30, 2, 1, arithmetic.hash_memory),
}
_CONTEXT = {
    0x30: Instruction(2, 0, 1, environment.own_address),
    0x31: Instruction(0, 1, 1, environment.balance),
    0x32: Instruction(2, 0, 1, environment.origin),
    0x33: Instruction(2, 0, 1, environment.caller),
    0x34: Instruction(2, 0, 1, environment.call_value),
    0x35: Instruction(3, 1, 1, environment.call_data_load),
    0x36: Instruction(2, 0, 1, environment.call_data_size),
    0x37: Instruction(3, 3, 0, environment.call_data_copy),
    0x38: Instruction(2, 0, 1, environment.code_size),
    0x39: Instruction(3, 3, 0, environment.code_copy),
    0x3A: Instruction(2, 0, 1, environment.gas_price),
    0x3B: Instruction(0, 1, 1, environment.other_code_size),
    0x3C: Instruction(0, 4, 0, environment.other_code_copy),
    0x3D: Instruction(2, 0, 1, environment.return_data_size),
    0x3E: Instruction(3, 3, 0, environment.return_data_copy),
    0x3F: Instruction(0, 1, 1, environment.other_code_hash),
    0x40: Instruction(20, 1, 1, environment.block_hash),
    0x41: Instruction(2, 0, 1, environment.coinbase),
    0x42: Instruction(2, 0, 1, environment.timestamp),
    0x43: Instruction(2, 0, 1, environment.number),
    0x44: Instruction(2, 0, 1, environment.prev_randao),
    0x45: Instruction(2, 0, 1, environment.gas_limit),
    0x46: Instruction(2, 0, 1, environment.chain_id),
    0x47: Instruction(5, 0, 1, environment.own_balance),
    0x48: Instruction(2, 0, 1, environment.base_fee),
}
_DATA = {
    0x00: Instruction(0, 0, 0, data.stop, ends_run=True),
    0x50: Instruction(2, 1, 0, data.pop),
    0x51: Instruction(3, 1, 1, data.load),
    0x52: Instruction(3, 2, 0, data.store),
    0x53: Instruction(3, 2, 0, data.store_byte),
    0x54: Instruction(0, 1, 1, data.load_slot),
    0x55: Instruction(0, 2, 0, data.store_slot, ends_run=True),
    0x56: Instruction(8, 1, 0, data.jump, ends_run=True),
    0x57: Instruction(10, 2, 0, data.jump_if, ends_run=True),
    0x58: Instruction(2, 0, 1, data.program_counter),
    0x59: Instruction(2, 0, 1, data.memory_size),
    0x5A: Instruction(2, 0, 1, data.gas_left, ends_run=True),
    **{0x60 + size: Instruction(3, 0, 1, None) for size in range(32)},
    **{0x80 + depth: Instruction(3, depth + 1, depth + 2, data.duplicate, False, -depth - 1) for depth in range(16)},
    **{0x90 + depth: Instruction(3, depth + 2, depth + 2, data.swap, False, -depth - 2) for depth in range(16)},
    **{0xA0 + topics: Instruction(375 + 375 * topics, 2 + topics, 0, data.log, False, topics) for topics in range(5)},
    0xF3: Instruction(0, 2, 0, data.give_back, ends_run=True),
    0xFD: Instruction(0, 2, 0, data.revert, ends_run=True),
}
_CALLS = {
    0xF0: Instruction(system.CREATE_GAS, 3, 1, system.create, ends_run=True),
    0xF1: Instruction(0, 7, 1, system.call, ends_run=True),
    0xF2: Instruction(0, 7, 1, system.call_code, ends_run=True),
    0xF4: Instruction(0, 6, 1, system.delegate_call, ends_run=True),
    0xF5: Instruction(system.CREATE_GAS, 4, 1, system.create_salted, ends_run=True),
    0xFA: Instruction(0, 6, 1, system.static_call, ends_run=True),
    0xFE: Instruction(0, 0, 0, system.fault, ends_run=True),
    0xFF: Instruction(5000, 1, 0, system.destroy_always, ends_run=True),
}

PARIS = InstructionSet(_ARITHMETIC | _CONTEXT | _DATA | _CALLS)
SHANGHAI = PARIS.changed({0x5F: Instruction(2, 0, 1, None)})
CANCUN = SHANGHAI.changed(
    {
        0x49: Instruction(3, 1, 1, environment.blob_hash),
        0x4A: Instruction(2, 0, 1, environment.blob_base_fee),
        0x5C: Instruction(100, 1, 1, data.load_transient),
        0x5D: Instruction(100, 2, 0, data.store_transient),
        0x5E: Instruction(3, 3, 0, data.copy_memory),
        0xFF: Instruction(5000, 1, 0, system.destroy_new, ends_run=True),
    }
)
OSAKA = CANCUN.changed({0x1E: Instruction(5, 1, 1, arithmetic.count_leading_zeros)})
