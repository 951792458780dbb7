"""Money: reserved before a call, settled after it."""
