-- Tokens of the HTTP side beside the server's own: each has a name, a role, and an end.
CREATE TABLE access_tokens (
    number       bigserial PRIMARY KEY,
    name         text NOT NULL,
    role         text NOT NULL CHECK (role IN ('read', 'run', 'release', 'admin')),
    token_hash   bytea NOT NULL UNIQUE,
    session_hash bytea NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL DEFAULT now(),
    created_by   text NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    revoked_by   text
);
COMMENT ON TABLE access_tokens IS 'Who may use the HTTP side, by which token. A token that was revoked stays, for those who read what it did.';
COMMENT ON COLUMN access_tokens.name IS 'Who holds it; approvals and the audit log give this name.';
COMMENT ON COLUMN access_tokens.token_hash IS 'sha256 of the token, which is 256 random bits and is kept nowhere.';
COMMENT ON COLUMN access_tokens.session_hash IS 'sha256 of the cookie that the page exchanges the token for.';
CREATE UNIQUE INDEX access_tokens_by_name ON access_tokens (name) WHERE revoked_at IS NULL;
