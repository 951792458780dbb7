-- Batches that are sent to providers: what was meant to be sent is stored before it is sent, so that no kill sends it twice.
CREATE TABLE batches (
    run_id       text NOT NULL REFERENCES runs ON DELETE CASCADE,
    batch_key    text NOT NULL,
    trial_id     text NOT NULL,
    number       integer NOT NULL,
    first        integer NOT NULL,
    until        integer NOT NULL,
    execution    text NOT NULL,
    endpoint     text NOT NULL,
    model        text NOT NULL,
    requests     integer NOT NULL,
    holder       text,
    state        text NOT NULL DEFAULT 'meant' CHECK (state IN ('meant', 'sent', 'ended', 'taken', 'lost', 'withdrawn')),
    sender       text,
    sending_at   timestamptz,
    input_file   text,
    provider_id  text,
    said         text,
    finished     integer NOT NULL DEFAULT 0,
    failed       integer NOT NULL DEFAULT 0,
    unknown      integer NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    sent_at      timestamptz,
    looked_at    timestamptz,
    over_at      timestamptz,
    PRIMARY KEY (run_id, batch_key),
    UNIQUE (run_id, trial_id, number)
) WITH (fillfactor = 50);
COMMENT ON TABLE batches IS 'Batches of requests to models, from the intention to send them until their results are stored.';
COMMENT ON COLUMN batches.batch_key IS 'sha256 of run, trial and number; the provider is told it, and a batch that was sent by a worker that died is found by it.';
COMMENT ON COLUMN batches.number IS 'Of the batches of its trial; a request that goes again is in a later one.';
COMMENT ON COLUMN batches.first IS 'The pairs of the trial that it was made from: all that lacked an answer from here, up to until.';
COMMENT ON COLUMN batches.execution IS 'The execution of the trial''s workflow that meant to send it. How often a request went is counted in one execution.';
COMMENT ON COLUMN batches.holder IS 'Under which name budget was set aside for it.';
COMMENT ON COLUMN batches.state IS 'taken: its results are stored. lost: the provider does not know it any more. withdrawn: it was never sent.';
COMMENT ON COLUMN batches.sender IS 'The attempt that may be sending it, since sending_at; with the file that it sends.';
COMMENT ON COLUMN batches.said IS 'What the provider last said of it, in its own words.';
COMMENT ON COLUMN batches.unknown IS 'How often in a row the provider said that there is no such batch.';

CREATE TABLE batch_requests (
    run_id      text NOT NULL,
    batch_key   text NOT NULL,
    custom_id   text NOT NULL,
    place       integer NOT NULL,
    error_class text,
    PRIMARY KEY (run_id, batch_key, custom_id),
    FOREIGN KEY (run_id, batch_key) REFERENCES batches ON DELETE CASCADE
);
COMMENT ON TABLE batch_requests IS 'The requests of each batch. Their contents follow from configuration and sample, and are not kept.';
COMMENT ON COLUMN batch_requests.custom_id IS 'From the key of the answer: configuration, target, sample, replicate.';
COMMENT ON COLUMN batch_requests.place IS 'The pair''s place in the trial.';
COMMENT ON COLUMN batch_requests.error_class IS 'Why it has no answer and goes again: expired, http 500. NULL while it waits, and when it is answered.';
