"""Where structured values come from: samplers over what is stored, for the `compute` door.

Imported by the activity alone: the samplers need numpy and Optuna, which workflow code must not load.
"""
