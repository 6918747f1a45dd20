"""A small assembler for the EVM: words are names of instructions, numbers, `:label` and `@label`."""

INSTRUCTIONS = {
    name: code
    for code, names in {
        0x00: "STOP ADD MUL SUB",
        0x10: "LT GT SLT SGT EQ ISZERO AND OR",
        0x1B: "SHL SHR",
        0x20: "KECCAK256",
        0x30: "ADDRESS BALANCE ORIGIN CALLER CALLVALUE CALLDATALOAD CALLDATASIZE CALLDATACOPY CODESIZE CODECOPY",
        0x40: "BLOCKHASH COINBASE TIMESTAMP NUMBER",
        0x50: "POP MLOAD MSTORE MSTORE8 SLOAD SSTORE JUMP JUMPI",
        0x5B: "JUMPDEST",
        0x80: "DUP1 DUP2 DUP3 DUP4 DUP5",
        0x90: "SWAP1 SWAP2 SWAP3 SWAP4",
        0xA1: "LOG1 LOG2 LOG3 LOG4",
        0xF0: "CREATE",
        0xF3: "RETURN",
        0xFD: "REVERT",
    }.items()
    for code, name in enumerate(names.split(), code)
}
_PUSH0, _PUSH1, _PUSH2, _JUMPDEST = 0x5F, 0x60, 0x61, 0x5B


def assemble(source: str, size: int | None = None) -> bytes:
    """Return the code of a program; `@end` is its length, and `size` replaces that.

    Raises ValueError for an unknown word or label."""
    code, labels, uses = bytearray(), dict[str, int](), list[tuple[int, str]]()
    for word in source.split():
        if word.startswith(":"):
            labels[word[1:]] = len(code)
            code.append(_JUMPDEST)
        elif word.startswith("@"):
            uses.append((len(code) + 1, word[1:]))
            code += bytes((_PUSH2, 0, 0))
        elif word in INSTRUCTIONS:
            code.append(INSTRUCTIONS[word])
        else:
            code += _push(int(word, 0))
    labels["end"] = len(code) if size is None else size
    for at, label in uses:
        if label not in labels:
            raise ValueError(f"unknown label {label}")
        code[at : at + 2] = labels[label].to_bytes(2, "big")
    return bytes(code)


def _push(value: int) -> bytes:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes((_PUSH1 + len(data) - 1,)) + data if data else bytes((_PUSH0,))
