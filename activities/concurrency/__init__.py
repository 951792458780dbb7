"""How much may be in flight: limits of a run, of a worker, and those that workers share."""
