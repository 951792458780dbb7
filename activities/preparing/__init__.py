"""What is settled before a run pays for anything: its prompt, its data, its plan, its packages."""
