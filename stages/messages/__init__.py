"""Every message two processes exchange, declared once, in one file per subject. topology.py has the unions per channel.

Requests are repeated until they are answered; answers may arrive twice; no process relies on a single message."""
