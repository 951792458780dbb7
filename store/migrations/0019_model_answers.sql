-- What models answered to requests for better texts, answer by answer: paid for once, whatever becomes of it.

CREATE TABLE model_answers (
    run_id       text NOT NULL REFERENCES runs ON DELETE CASCADE,
    request_hash text NOT NULL,
    round        integer NOT NULL,
    index        integer NOT NULL,
    answer       text NOT NULL,
    cut_off      boolean NOT NULL,
    tokens       bigint NOT NULL,
    cost         double precision NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, request_hash)
);
COMMENT ON TABLE model_answers IS 'Answers of models that write proposals. The same request is never paid for twice in a run.';
COMMENT ON COLUMN model_answers.request_hash IS 'sha256 of model, endpoint, messages and parameters.';
COMMENT ON COLUMN model_answers.index IS 'Which of the round''s proposals asked first.';
