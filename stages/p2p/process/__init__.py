"""The p2p process: its services, and its channels to the engine and rpc processes."""
