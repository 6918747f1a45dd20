"""Six blobs with few elements, whose commitments take 0.1 ms to compute: those of full ones take 80 ms."""

from rollup_node.stages.blobs.kzg import versioned_hash
from rollup_node.tools.batcher.channels import encode_blob
from tests.support.servers.fake_beacon import KnownBlob

_COMMITMENTS_AND_PROOFS = (
    (
        "92c14be03722aafe93e259fc55ae4ca6115ff3f1bec39cf8697b4b45739ef13b3be68fbbb5be90348f4823e7ad2e45ca",
        "b9ae31649b94db136f437ff575c83bdc4d247f1077261147aeab6cbe694fc1c67cc502be59eb5cc750808e250162b103",
    ),
    (
        "a48e6c4a71b3da66f47750db2406c6d6a5a8dfe42c3d9acef5e4c1c08ca12fb8031df4dcb6ca602cd47e614f9a28ed8e",
        "8d3649b914a7c5176ab9f6bffa4ffb6bdb177e941fae13dc06782829accf9185c9b6e596cb2effd3c3d6e46e00fbea0f",
    ),
    (
        "b4a6e5fc380533cffa6952512b962e4dc2f3ad119c37cbe8e40c4377f3bed5a442527e31c22121b5377af7e7f7faa2f6",
        "8d73c9185d960721e64d4cc0ce8f27d549fb9ed594ae0469630f2a3e5415b790fc078e7520e7b07d811d9a9bf30cd075",
    ),
    (
        "92defe887bd5eee7423e3fa952c38ba3b92267dfb0ca6b2a8c1d1f7639d68fd8ee59ad2f178158e9a342038a9b668114",
        "913aca78d026c4de96ab1cf7098937c6c9d13a62db7fe5fe9014e4796f002d109649c327348c7fce39d37cbc0fec72d5",
    ),
    (
        "95fdb203967d7728f2da3a7c64fa901b562daa599a611ae3484481b35fea42ef872afb550bc21f7b698007355bdfa1ef",
        "9764dd97fb4b49f7c7ca8e6f964b372c670f21e0ccca80f95bd909efa4a837ebafe7e6b789a11b7eab6c8da8c6693941",
    ),
    (
        "882295f2f55ad7e44d17f6cdc44323efc4dce30b79383d173483c4fdc24b6372a86dc595e8e589247a384672db4730bf",
        "b0e6d383e5791bdfaccfdd63f0579dfc99f1e2705b8b47df21eabdd1746f1b8004c2ffda4e0d08d7246fbfd5a8842949",
    ),
)


def small_blobs() -> tuple[KnownBlob, ...]:
    """Return the blobs, with commitments and proofs as ckzg makes them."""
    pairs = [(bytes.fromhex(commitment), bytes.fromhex(proof)) for commitment, proof in _COMMITMENTS_AND_PROOFS]
    return tuple(
        KnownBlob(versioned_hash(commitment), encode_blob(b"content of blob %d; " % number * 4), commitment, proof)
        for number, (commitment, proof) in enumerate(pairs)
    )
