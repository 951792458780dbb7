"""Who serves runs: servers, workers, the code that they need."""
