"""Pending transactions by sender and nonce."""

from collections.abc import Callable, Iterable, Iterator

from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.transactions import AnyTransaction, InvalidTransaction, SignedTransaction
from rollup_node.tools.devnet.evm.transition import BlockExecution

MAX_TRANSACTIONS = 20_000
MAX_SIZE = 128 * 1024
_REPLACEMENT_PERCENT = 110


class TransactionPool:
    """The pending transactions of a chain, bounded in number and in size."""

    def __init__(self) -> None:
        self._waiting: dict[Address, dict[int, SignedTransaction]] = {}
        self._by_hash: dict[Hash, SignedTransaction] = {}

    def __len__(self) -> int:
        return len(self._by_hash)

    def get(self, transaction_hash: Hash) -> SignedTransaction | None:
        """Return the pending transaction with a hash."""
        return self._by_hash.get(transaction_hash)

    def add(self, transaction: SignedTransaction, next_nonce: int) -> None:
        """Add a transaction.

        `next_nonce` is its sender's at the head. A pending transaction with the same nonce is replaced by one whose fee
        cap is at least 10 % higher.

        Raises InvalidTransaction for one that is too large, known, underpriced, with a used nonce, or if the pool is
        full."""
        body = transaction.body
        if len(transaction.raw) > MAX_SIZE:
            raise InvalidTransaction(f"transaction of more than {MAX_SIZE} bytes")
        if body.nonce < next_nonce:
            raise InvalidTransaction(f"nonce too low: next nonce {next_nonce}, tx nonce {body.nonce}")
        if transaction.hash in self._by_hash:
            raise InvalidTransaction("already known")
        queue = self._waiting.setdefault(transaction.sender, {})
        old = queue.get(body.nonce)
        if old is None and len(self._by_hash) >= MAX_TRANSACTIONS:
            raise InvalidTransaction("the transaction pool is full")
        if old is not None:
            if 100 * body.max_fee < _REPLACEMENT_PERCENT * old.body.max_fee:
                raise InvalidTransaction("replacement transaction underpriced")
            del self._by_hash[old.hash]
        queue[body.nonce] = transaction
        self._by_hash[transaction.hash] = transaction

    def next_nonce(self, sender: Address, nonce: int) -> int:
        """Return the sender's nonce after its pending transactions without a gap; `nonce` is the one at the head."""
        queue = self._waiting.get(sender, {})
        while nonce in queue:
            nonce += 1
        return nonce

    def fill(self, execution: BlockExecution) -> None:
        """Add pending transactions to a block while they fit.

        After an invalid one, the rest of that sender's are skipped."""
        skipped: set[Address] = set()
        for transaction in list(self.ready(execution.context.base_fee, execution.state.nonce)):
            if transaction.sender in skipped:
                continue
            try:
                execution.apply(transaction)
            except InvalidTransaction:
                skipped.add(transaction.sender)

    def ready(self, base_fee: int, nonce_of: Callable[[Address], int]) -> Iterator[SignedTransaction]:
        """Yield the executable transactions, senders with the highest tip first, each sender's in order of nonce.

        Transactions with a nonce that is already used are dropped."""
        queues = []
        for sender in list(self._waiting):
            nonce = nonce_of(sender)
            self._drop_below(sender, nonce)
            first = self._waiting.get(sender, {}).get(nonce)
            if first is not None:
                tip = min(first.body.max_priority_fee, first.body.max_fee - base_fee)
                queues.append((-tip, first.hash, sender, nonce))
        for _, _, sender, nonce in sorted(queues):
            queue = self._waiting[sender]
            while nonce in queue:
                yield queue[nonce]
                nonce += 1

    def remove(self, transactions: Iterable[AnyTransaction]) -> None:
        """Remove transactions that a block includes, and pending ones with the same sender and nonce."""
        for transaction in transactions:
            if isinstance(transaction, SignedTransaction):
                self._drop(transaction.sender, transaction.body.nonce)

    def reinject(self, transactions: Iterable[AnyTransaction]) -> None:
        """Add the transactions of blocks that a reorg removed."""
        for transaction in transactions:
            if isinstance(transaction, SignedTransaction) and len(self._by_hash) < MAX_TRANSACTIONS:
                self._drop(transaction.sender, transaction.body.nonce)
                self._waiting.setdefault(transaction.sender, {})[transaction.body.nonce] = transaction
                self._by_hash[transaction.hash] = transaction

    def _drop_below(self, sender: Address, nonce: int) -> None:
        for old in [old for old in self._waiting[sender] if old < nonce]:
            self._drop(sender, old)

    def _drop(self, sender: Address, nonce: int) -> None:
        queue = self._waiting.get(sender, {})
        gone = queue.pop(nonce, None)
        if gone is not None:
            del self._by_hash[gone.hash]
            if not queue:
                del self._waiting[sender]
