-- Datasets by name: the same name with other content is a new version.

CREATE TABLE dataset_names (
    name   text PRIMARY KEY,
    newest integer NOT NULL
);
COMMENT ON TABLE dataset_names IS 'Names that datasets were added under.';
COMMENT ON COLUMN dataset_names.newest IS 'The highest number a version ever had: numbers are never used twice.';

CREATE TABLE dataset_versions (
    name       text NOT NULL REFERENCES dataset_names,
    version    integer NOT NULL,
    dataset_id text NOT NULL REFERENCES datasets ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, version)
);
COMMENT ON TABLE dataset_versions IS 'What a name stood for, in order; content that comes back is a version of its own.';
CREATE INDEX dataset_versions_of_content ON dataset_versions (dataset_id);

INSERT INTO dataset_names (name, newest) SELECT name, count(*) FROM datasets GROUP BY name;
INSERT INTO dataset_versions (name, version, dataset_id, created_at)
SELECT name, row_number() OVER (PARTITION BY name ORDER BY created_at, dataset_id), dataset_id, created_at FROM datasets;
