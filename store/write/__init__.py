"""What activities write: each module owns the SQL of one aggregate; each function runs inside one transaction."""
