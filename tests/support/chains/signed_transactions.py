"""Transactions of all types, unsigned."""

from rollup_node.stages.protocol.transactions import AccessTuple, Authorization, Transaction


def unsigned_transaction(kind: int, chain_id: int | None) -> Transaction:
    """Return a transaction of a type from 0 to 4 with a zero signature; type 1 creates a contract."""
    return Transaction(
        kind=kind,
        chain_id=chain_id,
        nonce=3,
        max_priority_fee=7 if kind >= 2 else 90,
        max_fee=90,
        gas=50_000,
        to=None if kind == 1 else b"\xaa" * 20,
        value=5,
        data=b"\x01\x02",
        y_parity=0,
        r=0,
        s=0,
        access_list=(AccessTuple(b"\xbb" * 20, (b"\xcc" * 32,)),) if kind else (),
        max_blob_fee=2 if kind == 3 else 0,
        blob_hashes=(b"\x01" * 32,) if kind == 3 else (),
        authorizations=(Authorization(901, b"\xdd" * 20, 1, 0, 4, 5),) if kind == 4 else (),
    )
