"""The options of the optimizers: one module for each algorithm."""
