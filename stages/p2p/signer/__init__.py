"""Block signing by a remote signer: its calls, the blocks that wait for it, and the blocks that it signed."""
