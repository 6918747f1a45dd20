"""The block access list: the accounts and slots that a block accesses, and what each transaction changes (EIP-7928)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, Account
from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.state import NEW_ACCOUNT, State, StateDatabase

EMPTY_ACCESS_LIST_HASH = keccak256(rlp.EMPTY_LIST)

Changes = list[tuple[int, int]]
"""The values after the transactions that changed one, with the index of each: 0 for the system calls before them."""


@dataclass
class _Accesses:
    """The entry of one account; a slot without changes was only read."""

    slots: dict[int, Changes] = field(default_factory=dict)
    balances: Changes = field(default_factory=list)
    nonces: Changes = field(default_factory=list)
    codes: list[tuple[int, bytes]] = field(default_factory=list)


class RecordingState(State):
    """A state that records the block access list.

    What a transaction accesses counts also if it reverts; what is read between transactions does not."""

    def __init__(self, store: StateDatabase, root: Hash = EMPTY_ROOT) -> None:
        super().__init__(store, root)
        self._list: dict[Address, _Accesses] = {}
        self._accounts_before: dict[Address, Account] = {}
        self._slots_before: dict[tuple[Address, int], int] = {}
        self._accessed: set[Address] = set()
        self._accessed_slots: set[tuple[Address, int]] = set()

    def begin_transaction(self) -> None:
        """Begin a new set of accesses too."""
        super().begin_transaction()
        self._accessed.clear()
        self._accessed_slots.clear()

    def account(self, address: Address) -> Account | None:
        """Record the access."""
        account = super().account(address)
        self._accessed.add(address)
        self._accounts_before.setdefault(address, account or NEW_ACCOUNT)
        return account

    def storage(self, address: Address, slot: int) -> int:
        """Record the access."""
        value = super().storage(address, slot)
        self._accessed_slots.add((address, slot))
        self._slots_before.setdefault((address, slot), value)
        return value

    def note_access(self, index: int) -> None:
        """Note the accesses and changes of the last transaction under its index."""
        for address in self._accessed:
            self._note_account(address, index)
        for address, slot in self._accessed_slots:
            value = super().storage(address, slot)
            changes = self._list.setdefault(address, _Accesses()).slots.setdefault(slot, [])
            if value != self._slots_before[address, slot]:
                changes.append((index, value))
            self._slots_before[address, slot] = value

    def _note_account(self, address: Address, index: int) -> None:
        _list = self._list.setdefault(address, _Accesses())
        before, after = self._accounts_before[address], super().account(address) or NEW_ACCOUNT
        if after.balance != before.balance:
            _list.balances.append((index, after.balance))
        if after.nonce != before.nonce:
            _list.nonces.append((index, after.nonce))
        if after.code_hash != before.code_hash:
            _list.codes.append((index, self.store.codes[after.code_hash]))
        self._accounts_before[address] = after

    def access_list_hash(self) -> Hash:
        """Return the hash that the header commits to."""
        return keccak256(rlp.encode_list(_entry(*item) for item in sorted(self._list.items(), key=lambda e: e[0])))


def _entry(address: Address, value: _Accesses) -> bytes:
    changed = sorted((slot, changes) for slot, changes in value.slots.items() if changes)
    read = sorted(slot for slot, changes in value.slots.items() if not changes)
    slots = (rlp.encode_list((rlp.encode_int(slot), _changes(changes))) for slot, changes in changed)
    codes = (rlp.encode_list((rlp.encode_int(index), rlp.encode_bytes(code))) for index, code in value.codes)
    return rlp.encode_list(
        (
            rlp.encode_bytes(address),
            rlp.encode_list(slots),
            rlp.encode_list(map(rlp.encode_int, read)),
            _changes(value.balances),
            _changes(value.nonces),
            rlp.encode_list(codes),
        )
    )


def _changes(changes: Iterable[tuple[int, int]]) -> bytes:
    return rlp.encode_list(rlp.encode_list(map(rlp.encode_int, change)) for change in changes)
