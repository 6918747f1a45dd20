"""The rpc process and its servers."""
