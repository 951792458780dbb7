-- Files that samples name, under the hash of their content.
CREATE TABLE files (
    digest     text PRIMARY KEY CHECK (digest ~ '^[0-9a-f]{64}$'),
    media_type text NOT NULL,
    content    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE files IS 'What samples refer to as {"$file": "sha256:…"}; gone with the last dataset that names it.';
COMMENT ON COLUMN files.media_type IS 'Told by the content, whatever the file was called.';
ALTER TABLE files ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE TABLE dataset_files (
    dataset_id text NOT NULL REFERENCES datasets ON DELETE CASCADE,
    digest     text NOT NULL REFERENCES files,
    PRIMARY KEY (dataset_id, digest)
);
CREATE INDEX dataset_files_by_file ON dataset_files (digest);
COMMENT ON TABLE dataset_files IS 'Which dataset names which files.';
