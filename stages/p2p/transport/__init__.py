"""A TCP connection made secure and multiplexed: noise, yamux, and the upgrade [NET3]."""
