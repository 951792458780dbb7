"""What clients read of the store: frozen rows, ready to be written as JSON.

Dumped by alias they are in the words of the API: `optimization_id`, `mask_id`, `objective_score`.
"""
