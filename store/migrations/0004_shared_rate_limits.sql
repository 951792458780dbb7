-- Limits of requests and tokens per minute that several workers share.

-- Not logged: a lease needs no disk, and after a crash limits simply start anew.
CREATE UNLOGGED TABLE rate_limits (
    run_id       text NOT NULL,
    name         text NOT NULL,
    calls_until  timestamptz NOT NULL,
    tokens_until timestamptz NOT NULL,
    PRIMARY KEY (run_id, name)
) WITH (fillfactor = 50);
COMMENT ON TABLE rate_limits IS 'Up to when each limit is used up. Workers lease a few starts at a time by moving these times on.';
COMMENT ON COLUMN rate_limits.run_id IS 'The run whose limit it is; empty for the operator''s, which all runs share.';
COMMENT ON COLUMN rate_limits.name IS 'The model or the endpoint''s URL.';
