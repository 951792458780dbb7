"""A player of NetHack whose decisions follow from six numbers and an order: the policy that `evolve` changes."""
