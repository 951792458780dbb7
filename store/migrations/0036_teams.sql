-- Teams: each sees and steers its own runs, prompts and datasets. What no team was given is the default team's.
CREATE TABLE teams (
    team       text PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL
);
COMMENT ON TABLE teams IS 'Who works apart from others. The team default is there without a row, so that an empty store has none.';

CREATE TABLE run_teams (
    run_id text PRIMARY KEY,
    team   text NOT NULL REFERENCES teams
);
COMMENT ON TABLE run_teams IS 'Whose a run is, noted before it is started. Rows stay when runs are deleted: an id never changes hands.';

CREATE TABLE prompt_namespaces (
    namespace text PRIMARY KEY,
    team      text NOT NULL REFERENCES teams
);
COMMENT ON TABLE prompt_namespaces IS 'Whose the prompts namespace/… are.';

CREATE TABLE dataset_teams (
    dataset_id text NOT NULL,
    team       text NOT NULL,
    PRIMARY KEY (dataset_id, team)
);
INSERT INTO dataset_teams (dataset_id, team) SELECT dataset_id, 'default' FROM datasets;
COMMENT ON TABLE dataset_teams IS 'Who has brought a dataset. Whoever brings the same samples has it, too: it is one and the same by its content.';

ALTER TABLE access_tokens ADD COLUMN team text NOT NULL DEFAULT 'default';
COMMENT ON COLUMN access_tokens.team IS 'Whose runs, prompts and datasets its holder sees; an admin sees all.';

CREATE FUNCTION team_of_run(run text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT team FROM run_teams WHERE run_id = run), 'default')
$$;
COMMENT ON FUNCTION team_of_run IS 'Whose a run is.';

CREATE FUNCTION team_has_dataset(of_team text, dataset text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM dataset_teams WHERE dataset_id = dataset AND team = of_team)
        OR EXISTS (SELECT FROM runs r WHERE r.dataset_id = dataset AND team_of_run(r.run_id) = of_team)
        OR of_team = 'default'
           AND NOT EXISTS (SELECT FROM dataset_teams WHERE dataset_id = dataset)
           AND NOT EXISTS (SELECT FROM runs r WHERE r.dataset_id = dataset AND team_of_run(r.run_id) <> 'default')
$$;
COMMENT ON FUNCTION team_has_dataset IS 'Whether a team has brought a dataset, or has a run over it; what nobody has is the default team''s.';
CREATE INDEX runs_of_dataset ON runs (dataset_id);
