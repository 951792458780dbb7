"""The Python API: runs of a program's own functions. `import ratchet` offers it; nobody imports it from here."""
