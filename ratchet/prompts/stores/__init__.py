"""Where prompts are kept: one backend a file, each opened by `ratchet.prompts.addresses`."""
