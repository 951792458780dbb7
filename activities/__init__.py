"""DO: everything that touches the world. Classes that get their clients injected."""
