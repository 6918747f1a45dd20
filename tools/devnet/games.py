"""A dispute game factory, its games and an anchor registry for the local L1.

The factory has the methods, the event and the storage slots of DisputeGameFactory that op-proposer, `watch` and a proof
need: `create`, `gameCount`, `gameAtIndex`, `initBonds`, `gameImpls` (none) and `version`. A game only tells what it was
created with: as extra data one word, or the preimage of a super root. Nobody can dispute anything."""

from rollup_node.stages.protocol.keccak import keccak256

FACTORY = bytes.fromhex("6900000000000000000000000000000000000004")
ANCHOR = bytes.fromhex("6900000000000000000000000000000000000005")
LIST_SLOT = 104
CREATED = keccak256(b"DisputeGameCreated(address,uint32,bytes32)")
ANCHOR_UPDATED = keccak256(b"AnchorUpdated(address)")
SET_ANCHOR = "setAnchor(bytes32,uint256)"
"""Only this registry has it: anyone may set its anchor."""

_WORDS = {"type": 0, "creator": 1, "claim": 2, "head": 3, "extra": 4}
"""The words behind a game's code, in which its data are: claim, L1 head and extra data as in a real proxy's.

Of the extra data it is the first word."""
_ARGS = 32 * _WORDS["extra"]
_EXTRA_SIZE = f"{_ARGS} @end ADD CODESIZE SUB"


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


def selector(signature: str) -> int:
    """Return the first four bytes of a call as a number."""
    return int.from_bytes(keccak256(signature.encode())[:4], "big")


def dispatch(*methods: tuple[str, str], unknown: str = "0 0 REVERT") -> str:
    """Return code that jumps to the label of the first method that is called, and runs `unknown` for others."""
    tests = (f"DUP1 {selector(signature)} EQ @{label} JUMPI" for signature, label in methods)
    return f"0 CALLDATALOAD 224 SHR {' '.join(tests)} :revert {unknown}"


def argument(name: str) -> str:
    """Return code that puts a word behind the game's code on the stack, by way of the memory at 1024."""
    return f"32 {32 * _WORDS[name]} @end ADD 1024 CODECOPY 1024 MLOAD"


def returned(*words: str) -> str:
    """Return code that returns words, each given by the code that puts it on the stack."""
    stored = " ".join(f"{word} {32 * index} MSTORE" for index, word in enumerate(words))
    return f"{stored} {32 * len(words)} 0 RETURN"


def returned_text(text: str) -> str:
    """Return code that returns a string of up to 32 bytes."""
    return returned("32", str(len(text)), "0x" + text.encode().ljust(32, b"\0").hex())


GAME_METHODS = (
    ("gameData()", "data"),
    ("l1Head()", "head"),
    ("rootClaim()", "claim"),
    ("l2SequenceNumber()", "sequence"),
    ("l2BlockNumber()", "sequence"),
    ("claimData(uint256)", "claims"),
    ("status()", "status"),
    ("gameType()", "type"),
)
GAME_BODY = " ".join(
    (
        f":data {argument('type')} 0 MSTORE {argument('claim')} 32 MSTORE 96 64 MSTORE",
        f"{_EXTRA_SIZE} DUP1 96 MSTORE {_ARGS} @end ADD 128 CODECOPY",
        f"31 {_EXTRA_SIZE} ADD 5 SHR 5 SHL 128 ADD 0 RETURN",
        f":head {returned(argument('head'))}",
        f":claim {returned(argument('claim'))}",
        f":sequence {_EXTRA_SIZE} 32 EQ @word JUMPI",
        # The time in a super root's preimage: 64 bits behind its version, of 8.
        returned(f"{argument('extra')} 184 SHR 0xffffffffffffffff AND"),
        f":word {returned(argument('extra'))}",
        f":type {returned(argument('type'))}",
        f":status {returned('0')}",
        # Parent index, countered by, claimant, bond, claim, position, clock.
        ":claims " + returned("0xffffffff", "0", argument("creator"), "0", argument("claim"), "1", "0"),
    )
)
GAME_CODE = assemble(f"{dispatch(*GAME_METHODS)} {GAME_BODY}")

DEPLOYMENT = assemble("@end CODESIZE SUB @end 0 CODECOPY @end CODESIZE SUB 0 RETURN")
"""Returns what follows it as the code of a contract."""

_SLOTS = int.from_bytes(keccak256(LIST_SLOT.to_bytes(32, "big")), "big")


def factory_code(game: bytes = GAME_CODE) -> bytes:
    """Return the code of the factory, which holds that of a game behind its own."""
    image = DEPLOYMENT + game
    data = len(image)

    def created(*, name: str, value: str) -> str:
        return f"{value} {data + 32 * _WORDS[name]} MSTORE"

    create = " ".join(
        (
            # create(type, claim, offset 96, length, extra data)
            "68 CALLDATALOAD 96 EQ ISZERO @revert JUMPI 100 CALLDATALOAD 132 ADD CALLDATASIZE LT @revert JUMPI",
            f"{data} @end 0 CODECOPY",
            created(name="claim", value="36 CALLDATALOAD"),
            created(name="head", value="1 NUMBER SUB BLOCKHASH"),
            f"100 CALLDATALOAD 132 {data + _ARGS} CALLDATACOPY",
            created(name="type", value="4 CALLDATALOAD"),
            created(name="creator", value="CALLER"),
            f"100 CALLDATALOAD {data + _ARGS} ADD 0 0 CREATE",
            # The proxy is on the stack. Its entry: type, time, address.
            "DUP1 ISZERO @revert JUMPI",
            "DUP1 TIMESTAMP 160 SHL OR 4 CALLDATALOAD 224 SHL OR",
            f"{LIST_SLOT} SLOAD {_SLOTS} ADD SSTORE {LIST_SLOT} SLOAD 1 ADD {LIST_SLOT} SSTORE",
            f"36 CALLDATALOAD 4 CALLDATALOAD DUP3 0x{CREATED.hex()} 0 0 LOG4",
            "0 MSTORE 32 0 RETURN",
        )
    )
    at_index = (
        f":at 4 CALLDATALOAD {LIST_SLOT} SLOAD GT ISZERO @revert JUMPI"
        f" 4 CALLDATALOAD {_SLOTS} ADD SLOAD"
        " DUP1 224 SHR 0 MSTORE DUP1 160 SHR 0xffffffffffffffff AND 32 MSTORE"
        f" {(1 << 160) - 1} AND 64 MSTORE 96 0 RETURN"
    )
    source = " ".join(
        (
            dispatch(
                ("create(uint32,bytes32,bytes)", "create"),
                ("gameCount()", "count"),
                ("gameAtIndex(uint256)", "at"),
                ("initBonds(uint32)", "bond"),
                ("gameImpls(uint32)", "bond"),
                ("version()", "version"),
            ),
            f":create {create}",
            f":count {returned(f'{LIST_SLOT} SLOAD')}",
            at_index,
            f":bond {returned('0')}",
            f":version {returned_text('1.4.0')}",
        )
    )
    return assemble(source) + image


def anchor_code() -> bytes:
    """Return the code of the anchor registry: `getAnchorRoot` and SET_ANCHOR."""
    return assemble(
        " ".join(
            (
                dispatch(("getAnchorRoot()", "get"), (SET_ANCHOR, "set")),
                f":get {returned('0 SLOAD', '1 SLOAD')}",
                ":set 4 CALLDATALOAD 0 SSTORE 36 CALLDATALOAD 1 SSTORE",
                f"CALLER 0x{ANCHOR_UPDATED.hex()} 0 0 LOG2 STOP",
            )
        )
    )


def create_call(game_type: int, root_claim: bytes, extra: int | bytes) -> bytes:
    """Return the calldata that creates a game; `extra` is an L2 block, or a super root's preimage."""
    data = extra.to_bytes(32, "big") if isinstance(extra, int) else extra
    values = (game_type, int.from_bytes(root_claim, "big"), 96, len(data))
    call = selector("create(uint32,bytes32,bytes)").to_bytes(4, "big")
    return call + b"".join(value.to_bytes(32, "big") for value in values) + data + bytes(-len(data) % 32)


def set_anchor_call(root: bytes, l2_sequence_number: int) -> bytes:
    """Return the calldata that sets the anchor."""
    return selector(SET_ANCHOR).to_bytes(4, "big") + root + l2_sequence_number.to_bytes(32, "big")
