"""The vocabulary: frozen types, one file per word family."""
