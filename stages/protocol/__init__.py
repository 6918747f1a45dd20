"""The rollup protocol that all stages share: types, encodings and rules of the chain."""
