"""Plug-ins: found by reference, called in threads, loops or processes, isolated when they are dangerous."""
