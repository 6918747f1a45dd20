"""Keys and peer ids."""
