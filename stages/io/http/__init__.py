"""HTTP and WebSocket clients: connections, bodies, JSON-RPC and its errors."""
