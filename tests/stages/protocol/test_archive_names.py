"""The names of an archive's entries."""

from rollup_node.stages.protocol.archive_names import blob_name, block_name, number_name, receipts_name

HASH = b"\x01" + bytes(29) + b"\xab\xcd"


def test_names_spread_over_folders() -> None:
    text = "01" + 29 * "00" + "abcd"
    assert number_name(1, 19_426_587) == "l1-1/numbers/000019426/000019426587"
    assert block_name(1, HASH) == f"l1-1/blocks/cd/ab/{text}.json.gz"
    assert receipts_name(11155111, HASH) == f"l1-11155111/receipts/cd/ab/{text}.json.gz"
    assert blob_name(HASH) == f"blobs/cd/ab/{text}"
