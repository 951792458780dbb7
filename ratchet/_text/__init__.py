"""Texts: placeholders in them, and foreign ones made fit to be shown."""
