"""How a run ends: why, with which confirmation, with which release."""
