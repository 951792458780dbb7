"""Backups: everything that the store and the store of prompts hold, in one file, and back."""
