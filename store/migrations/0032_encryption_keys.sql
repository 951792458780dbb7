-- With which keys contents of this database may be encrypted. A process without one of them is refused.
CREATE TABLE encryption_keys (
    key_id        text PRIMARY KEY,
    proof         bytea NOT NULL,
    first_used_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE encryption_keys IS 'The ids of keys, never keys. Delete the row of one that is lost: then only what it encrypted cannot be read.';
COMMENT ON COLUMN encryption_keys.proof IS 'A known word, encrypted: so a wrong key is told at once.';
