"""What is told of a run when it is over, and while it goes on. `clients.reports` is the door."""
