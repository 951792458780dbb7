"""What people write: the spec, field by field."""
