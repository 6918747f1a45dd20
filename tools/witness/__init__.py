"""Witnesses: what the derivation of a range reads on L1, as preimages that prove themselves, and replays of them."""
