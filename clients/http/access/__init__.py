"""Who is let in, and what he may do."""
