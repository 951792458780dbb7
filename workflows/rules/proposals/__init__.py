"""Rules about proposals: how configurations are changed, and which changes may be tried."""
