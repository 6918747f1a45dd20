"""Accounts and storage on top of tries, with a journal to revert calls."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_CODE_HASH, EMPTY_ROOT, Account
from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.trie import MissingNode, Trie, TrieNodeStore

NEW_ACCOUNT = Account(0, 0, EMPTY_ROOT, EMPTY_CODE_HASH)

_key = lru_cache(16384)(keccak256)
_ABSENT: Any = object()


class StateDatabase:
    """Trie nodes and contract code by hash, shared by the states of all blocks."""

    def __init__(self, nodes: dict[Hash, bytes] | None = None, codes: dict[Hash, bytes] | None = None) -> None:
        self.nodes = TrieNodeStore(nodes)
        self.codes: dict[Hash, bytes] = {EMPTY_CODE_HASH: b""} if codes is None else {EMPTY_CODE_HASH: b""} | codes


class EventLog(NamedTuple):
    """An event log."""

    address: Address
    topics: tuple[bytes, ...]
    data: bytes


class StateSnapshot(NamedTuple):
    """A point within a transaction to revert to."""

    entries: int
    logs: int
    refund: int


class AccountChange(NamedTuple):
    """A written account with its code and its written slots; `account` is None where it was removed."""

    address: Address
    account: Account | None
    code: bytes
    slots: dict[int, int]


class State:
    """The state after a block with the uncommitted changes of the next one. Balances in wei, storage as integers.

    `revert` undoes all changes since a `snapshot` of the same transaction: each change is an entry of a dict, and the
    journal has the entry's former value."""

    def __init__(self, store: StateDatabase, root: Hash = EMPTY_ROOT) -> None:
        self.store = store
        self.logs: list[EventLog] = []
        self.refund = 0
        self._trie = Trie(store.nodes, root)
        self._accounts: dict[Address, Account | None] = {}
        self._tries: dict[Address, Trie] = {}
        self._storage: dict[Address, dict[int, int]] = {}
        self._changed_accounts: set[Address] = set()
        self._changed_slots: dict[Address, set[int]] = {}
        self._journal: list[tuple[dict[Any, Any], Any, Any]] = []
        self._originals: dict[tuple[Address, int], int] = {}
        self._transient: dict[tuple[Address, int], int] = {}
        self._warm: dict[Address | tuple[Address, int], bool] = {}
        self._created: dict[Address, bool] = {}
        self._destroyed: dict[Address, bool] = {}

    # --- transactions ----------------------------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        """Clear logs, refund, transient storage, access lists and the journal."""
        self.logs, self.refund = [], 0
        for passing in (self._originals, self._transient, self._warm, self._created, self._destroyed):
            passing.clear()
        self._journal.clear()

    def end_transaction(self) -> None:
        """Remove self-destructed accounts."""
        for address in self._destroyed:
            self._accounts[address] = None
            self._changed_accounts.add(address)
            # A later transaction may create the account again: it must not see the old storage.
            self._storage[address] = {}
            self._changed_slots.pop(address, None)
            self._tries[address] = Trie(self.store.nodes)

    def note_access(self, index: int) -> None:
        """Note what the last transaction accessed and changed under its index in a block access list.

        This state does not keep one."""

    def snapshot(self) -> StateSnapshot:
        """Return the current point within the transaction."""
        return StateSnapshot(len(self._journal), len(self.logs), self.refund)

    def revert(self, snapshot: StateSnapshot) -> None:
        """Undoes all changes since the snapshot."""
        journal = self._journal
        while len(journal) > snapshot.entries:
            entries, key, before = journal.pop()
            if before is _ABSENT:
                del entries[key]
            else:
                entries[key] = before
        del self.logs[snapshot.logs :]
        self.refund = snapshot.refund

    def _put(self, entries: dict[Any, Any], key: Any, value: Any) -> None:
        self._journal.append((entries, key, entries.get(key, _ABSENT)))
        entries[key] = value

    # --- accounts --------------------------------------------------------------------------------------------------

    def account(self, address: Address) -> Account | None:
        """Return the account, or None; its storage root is that of the last `commit`."""
        try:
            return self._accounts[address]
        except KeyError:
            encoded = self._trie.get(_key(address))
            account = None if encoded is None else _decode_account(encoded)
            self._accounts[address] = account  # a cached read is no change, and not in the journal
            return account

    def balance(self, address: Address) -> int:
        """Return the balance in wei, 0 without an account."""
        account = self.account(address)
        return 0 if account is None else account.balance

    def nonce(self, address: Address) -> int:
        """Return the nonce, 0 without an account."""
        account = self.account(address)
        return 0 if account is None else account.nonce

    def code_hash(self, address: Address) -> Hash:
        """Return the hash of the code, that of no code without an account."""
        account = self.account(address)
        return EMPTY_CODE_HASH if account is None else account.code_hash

    def code(self, address: Address) -> bytes:
        """Return the code, empty without an account. Raises MissingNode where the database lacks it."""
        account = self.account(address)
        if account is None:
            return b""
        try:
            return self.store.codes[account.code_hash]
        except KeyError:
            raise MissingNode(f"code 0x{account.code_hash.hex()} is not in the store") from None

    def is_alive(self, address: Address) -> bool:
        """Whether the account exists and is not empty (EIP-161)."""
        account = self.account(address)
        return account is not None and not _is_empty(account)

    def is_occupied(self, address: Address) -> bool:
        """Whether a creation at the address is a collision (EIP-684, EIP-7610)."""
        account = self.account(address)
        return account is not None and (
            account.nonce != 0 or account.code_hash != EMPTY_CODE_HASH or account.storage_root != EMPTY_ROOT
        )

    def add_balance(self, address: Address, amount: int) -> None:
        """Add wei; adding zero to an empty account removes it (EIP-161)."""
        account = self.account(address)
        if amount:
            account = account or NEW_ACCOUNT
            self._write(address, Account(account.nonce, account.balance + amount, account[2], account[3]))
        elif account is not None and _is_empty(account):
            self._write(address, None)

    def subtract_balance(self, address: Address, amount: int) -> None:
        """Subtract wei; the caller has checked the balance."""
        if amount:
            account = self.account(address) or NEW_ACCOUNT
            self._write(address, Account(account.nonce, account.balance - amount, account[2], account[3]))

    def set_nonce(self, address: Address, nonce: int) -> None:
        """Set the nonce."""
        account = self.account(address) or NEW_ACCOUNT
        self._write(address, Account(nonce, account[1], account[2], account[3]))

    def set_code(self, address: Address, code: bytes) -> None:
        """Set the code and store it by its hash."""
        account = self.account(address) or NEW_ACCOUNT
        code_hash = keccak256(code)
        self.store.codes[code_hash] = code
        self._write(address, Account(account[0], account[1], account[2], code_hash))

    def put_account(self, address: Address, account: Account) -> None:
        """Set an account without its storage, for a genesis."""
        self._write(address, account)

    def _write(self, address: Address, account: Account | None) -> None:
        self._changed_accounts.add(address)
        self._journal.append((self._accounts, address, self._accounts.get(address, _ABSENT)))
        self._accounts[address] = account

    # --- storage ---------------------------------------------------------------------------------------------------

    def storage(self, address: Address, slot: int) -> int:
        """Return the current value of a slot."""
        slots = self._storage.get(address)
        if slots is None:
            slots = self._storage[address] = {}
        value = slots.get(slot)
        if value is None:
            encoded = self._storage_trie(address).get(_key(slot.to_bytes(32, "big")))
            value = slots[slot] = 0 if encoded is None else int.from_bytes(rlp.decode(encoded), "big")
        return value

    def original_storage(self, address: Address, slot: int) -> int:
        """Return the slot's value when the transaction began."""
        original = self._originals.get((address, slot))
        return self.storage(address, slot) if original is None else original

    def set_storage(self, address: Address, slot: int, value: int) -> None:
        """Set a slot."""
        before = self.storage(address, slot)
        # Stays after a revert: SSTORE is priced by the value at the start of the transaction.
        self._originals.setdefault((address, slot), before)
        slots = self._storage[address]
        self._journal.append((slots, slot, before))
        slots[slot] = value
        self._changed_slots.setdefault(address, set()).add(slot)

    def transient(self, address: Address, slot: int) -> int:
        """Return the value of a slot of transient storage (EIP-1153)."""
        return self._transient.get((address, slot), 0)

    def set_transient(self, address: Address, slot: int, value: int) -> None:
        """Set a slot of transient storage."""
        self._put(self._transient, (address, slot), value)

    def _storage_trie(self, address: Address) -> Trie:
        trie = self._tries.get(address)
        if trie is None:
            account = self.account(address)
            trie = Trie(self.store.nodes, EMPTY_ROOT if account is None else account.storage_root)
            self._tries[address] = trie
        return trie

    # --- transaction scope -----------------------------------------------------------------------------------------

    def warm_up(self, key: Address | tuple[Address, int]) -> bool:
        """Add an address, or an address with a slot, to the accessed ones; whether it was cold (EIP-2929)."""
        if key in self._warm:
            return False
        self._put(self._warm, key, True)
        return True

    def preload(self, addresses: frozenset[Address]) -> None:
        """Add addresses that are warm from the start of the transaction."""
        self._warm.update(dict.fromkeys(addresses, True))

    def mark_created(self, address: Address) -> None:
        """Mark an account as created in this transaction."""
        self._put(self._created, address, True)

    def is_created(self, address: Address) -> bool:
        """Whether the account was created in this transaction (EIP-6780)."""
        return address in self._created

    def mark_destroyed(self, address: Address) -> None:
        """Mark an account for removal at the end of the transaction."""
        self._put(self._destroyed, address, True)

    # --- roots -----------------------------------------------------------------------------------------------------

    def storage_root(self, address: Address) -> Hash:
        """Return the storage root as of the last `commit`."""
        account = self.account(address)
        return EMPTY_ROOT if account is None else account.storage_root

    def commit(self, keep_empty: bool = False) -> Hash:
        """Write all changes to the tries; the state root. `keep_empty` keeps empty accounts, for a genesis."""
        for address, changed in self._changed_slots.items():
            self._commit_storage(address, changed)
        self._changed_slots.clear()
        for address in self._changed_accounts:
            account = self._accounts[address]
            if account is None or (_is_empty(account) and not keep_empty):
                self._trie.set(_key(address), None)
            else:
                self._trie.set(_key(address), _encode_account(account))
        self._changed_accounts.clear()
        self._journal.clear()
        return self._trie.commit()

    def changes(self) -> Iterator[AccountChange]:
        """Yield the accounts written since the last `commit`, by address."""
        for address in sorted(self._changed_accounts | self._changed_slots.keys()):
            slots = {slot: self._storage[address][slot] for slot in sorted(self._changed_slots.get(address, ()))}
            yield AccountChange(address, self.account(address), self.code(address), slots)

    def prove_account(self, address: Address) -> list[bytes]:
        """Return the account's proof under the committed root."""
        return self._trie.prove(_key(address))

    def prove_storage(self, address: Address, slot: int) -> list[bytes]:
        """Return a slot's proof under the account's committed storage root."""
        return self._storage_trie(address).prove(_key(slot.to_bytes(32, "big")))

    def _commit_storage(self, address: Address, changed: set[int]) -> None:
        account = self.account(address)
        if account is None:
            return
        trie, slots = self._storage_trie(address), self._storage[address]
        for slot in changed:
            value = slots[slot]
            trie.set(_key(slot.to_bytes(32, "big")), rlp.encode_int(value) if value else None)
        root = trie.commit()
        if root != account.storage_root:
            self._accounts[address] = Account(account.nonce, account.balance, root, account.code_hash)
            self._changed_accounts.add(address)


def _is_empty(account: Account) -> bool:
    return not account.nonce and not account.balance and account.code_hash == EMPTY_CODE_HASH


def _decode_account(encoded: bytes) -> Account:
    nonce, balance, storage_root, code_hash = rlp.decode(encoded)
    return Account(int.from_bytes(nonce, "big"), int.from_bytes(balance, "big"), storage_root, code_hash)


def _encode_account(account: Account) -> bytes:
    return rlp.encode_list(
        (
            rlp.encode_int(account.nonce),
            rlp.encode_int(account.balance),
            rlp.encode_bytes(account.storage_root),
            rlp.encode_bytes(account.code_hash),
        )
    )


class GenesisError(ValueError):
    """The genesis is invalid; the text names the field."""


def load_alloc(store: StateDatabase, alloc: Mapping[str, Any]) -> Hash:
    """Write all accounts, also empty ones, as geth does; the state root. Raises GenesisError."""
    state = State(store)
    for text, entry in alloc.items():
        try:
            _load_account(state, text, entry)
        except (ValueError, TypeError, AttributeError) as error:
            raise GenesisError(f"alloc: account {text[:60]}: {error}") from None
    return state.commit(keep_empty=True)


def number(value: Any) -> int:
    """Return a number in a genesis file: hex or decimal text, a JSON number, or null for 0. Raises ValueError."""
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            return int(value, 16 if value.startswith("0x") else 10)
        except ValueError:
            raise ValueError(f"expected a number, got {value[:40]!r}") from None
    if type(value) is int:
        return value
    raise ValueError(f"expected a number, got {type(value).__name__}")


def data(value: Any) -> bytes:
    """Bytes in a genesis file: hex text with or without 0x, or null for none. Raises ValueError."""
    try:
        return bytes.fromhex(value.removeprefix("0x")) if value else b""
    except ValueError:
        raise ValueError(f"expected bytes in hex, got {value[:40]!r}") from None


def _load_account(state: State, text: str, entry: Mapping[str, Any]) -> None:
    address = data(text).rjust(20, b"\0")
    if len(address) != 20:
        raise ValueError("expected 20 bytes as address")
    account = Account(number(entry.get("nonce")), number(entry.get("balance")), EMPTY_ROOT, EMPTY_CODE_HASH)
    state.put_account(address, account)
    code = data(entry.get("code"))
    if code:
        state.set_code(address, code)
    for slot, value in (entry.get("storage") or {}).items():
        if number(value):
            state.set_storage(address, number(_prefixed(slot)), number(_prefixed(value)))


def _prefixed(text: str) -> str:
    return text if text.startswith("0x") else "0x" + text
