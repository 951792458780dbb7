"""Prompts at the command line: shown, compared, imported and exported."""
