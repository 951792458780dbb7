-- Files that factors of a run name. They are kept as long as the run is, as those of samples are as long as their dataset.
CREATE TABLE run_files (
    run_id     text NOT NULL,
    digest     text NOT NULL REFERENCES files,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, digest)
);
CREATE INDEX run_files_by_file ON run_files (digest);
COMMENT ON TABLE run_files IS 'Which run''s factors name which files, noted before the run is there.';
