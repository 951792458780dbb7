"""The way to endpoints: protocols, retries, rates, and who may be called at all."""
