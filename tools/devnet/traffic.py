"""Traffic on a local network: transfers on L2, and deposits through the logger contract in place of the portal."""

from collections.abc import Callable

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.batcher.driver import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.devnet.files import DEPOSITOR_KEY, FIRST_CHAIN, RECEIVER_KEY, TRANSFER_KEY, DevnetChain

TRANSACTION_DEPOSITED = bytes.fromhex("b3813568d9991fc951961fcb4c784893574240a28925604d09fc577c55bb7c32")
GWEI = 10**9
FEES = Fees(tip=GWEI, cap=100 * GWEI)
TRANSFERS_PER_ROUND = 3
ROUNDS_PER_DEPOSIT = 4
DEPOSIT_GAS = 100_000


def deposit_call(sender: bytes, to: bytes, mint: int, value: int, gas: int, data: bytes = b"") -> bytes:
    """Calldata with which the logger contract emits a version 0 TransactionDeposited event [DEP1]; amounts in wei."""
    opaque = mint.to_bytes(32, "big") + value.to_bytes(32, "big") + gas.to_bytes(8, "big") + b"\0" + data
    padded = opaque.ljust(-(-len(opaque) // 32) * 32, b"\0")
    return b"".join(
        (
            TRANSACTION_DEPOSITED,
            sender.rjust(32, b"\0"),
            to.rjust(32, b"\0"),
            bytes(32),
            (32).to_bytes(32, "big"),
            len(opaque).to_bytes(32, "big"),
            padded,
        )
    )


class Traffic:
    """Sends transfers each round and a deposit every few rounds; the next round retries what an endpoint refused.

    `l2` is the engine that gets the transfers, and may be replaced."""

    def __init__(
        self,
        l1: JsonRpcClient,
        l2: JsonRpcClient,
        on_error: Callable[[str], None],
        chain: DevnetChain = FIRST_CHAIN,
    ) -> None:
        self._l1, self.l2, self._on_error, self._chain = l1, l2, on_error, chain
        self._round = 0
        self._l1_chain_id = 0
        self.transfers = 0
        self.deposits = 0

    async def send_round(self) -> None:
        """Send the transactions of one round."""
        self._round += 1
        try:
            await self._transfer()
            if self._round % ROUNDS_PER_DEPOSIT == 1:
                await self._deposit()
        except (EndpointError, RpcFailure) as error:
            self._on_error(f"traffic: {error}")

    async def _transfer(self) -> None:
        nonce = await self._nonce(self.l2, TRANSFER_KEY)
        for offset in range(TRANSFERS_PER_ROUND):
            raw = dynamic_fee_transaction(
                TRANSFER_KEY, self._chain.id, nonce + offset, RECEIVER_KEY.address, GWEI, b"", 21_000, FEES
            )
            await self.l2.call("eth_sendRawTransaction", to_hex(raw))
            self.transfers += 1

    async def _deposit(self) -> None:
        if not self._l1_chain_id:
            self._l1_chain_id = int(await self._l1.call("eth_chainId"), 16)
        address = DEPOSITOR_KEY.address
        data = deposit_call(address, RECEIVER_KEY.address, mint=GWEI, value=GWEI, gas=DEPOSIT_GAS)
        nonce = await self._nonce(self._l1, DEPOSITOR_KEY)
        raw = dynamic_fee_transaction(
            DEPOSITOR_KEY, self._l1_chain_id, nonce, self._chain.portal, 0, data, DEPOSIT_GAS, FEES
        )
        await self._l1.call("eth_sendRawTransaction", to_hex(raw))
        self.deposits += 1

    async def _nonce(self, client: JsonRpcClient, key: Key) -> int:
        return int(await client.call("eth_getTransactionCount", to_hex(key.address), "pending"), 16)
