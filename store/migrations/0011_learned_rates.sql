-- What endpoints that state no limit have taught by their complaints.

-- Not logged: after a crash it is learned anew.
CREATE UNLOGGED TABLE learned_rates (
    base_url    text NOT NULL,
    model       text NOT NULL,
    revision    int NOT NULL,
    lowest      float8 NOT NULL,
    likely      float8,
    recovery    float8 NOT NULL,
    used        float8 NOT NULL DEFAULT 0,
    took        float8 NOT NULL DEFAULT 0,
    took_in     float8 NOT NULL,
    calls_until timestamptz NOT NULL,
    leased_at   timestamptz NOT NULL,
    learned_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (base_url, model)
) WITH (fillfactor = 50);
COMMENT ON TABLE learned_rates IS 'The rate at which each endpoint that complained may be called, learned by all workers together.';
COMMENT ON COLUMN learned_rates.revision IS 'Counts the complaints that taught something.';
COMMENT ON COLUMN learned_rates.lowest IS 'Calls per second right after the last of them.';
COMMENT ON COLUMN learned_rates.likely IS 'Calls per second that the endpoint probably takes; the rate climbs back to it, and slowly beyond.';
COMMENT ON COLUMN learned_rates.recovery IS 'Seconds in which it climbs back.';
COMMENT ON COLUMN learned_rates.used IS 'Seconds since then in which it was used.';
COMMENT ON COLUMN learned_rates.took IS 'Calls that were let in, in the last seconds.';
COMMENT ON COLUMN learned_rates.took_in IS 'The seconds in which they were.';
COMMENT ON COLUMN learned_rates.calls_until IS 'Up to when starts are leased.';
