"""A conductor for the local network: op-conductor's RPC and its decisions, for all sequencers in one program."""
