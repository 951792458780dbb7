"""One small script per peer, run by the interpreter of the peer's own environment; `task` is what all of them run."""
