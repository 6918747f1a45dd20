"""Contracts of fault games on the local L1, assembled here: what a proposer and a watcher call, and no game."""
