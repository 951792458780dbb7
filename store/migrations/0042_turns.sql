-- Conversations of agents, turn by turn, until their answer is stored. Its trace has them then.
CREATE TABLE turns (
    config_hash text NOT NULL,
    target      text NOT NULL,
    run_id      text NOT NULL REFERENCES runs ON DELETE CASCADE,
    item_hash   text NOT NULL,
    replicate   integer NOT NULL,
    turn        integer NOT NULL,
    tokens      bigint NOT NULL,
    cost        double precision NOT NULL,
    content     json NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (config_hash, target, run_id, item_hash, replicate, turn)
);
COMMENT ON TABLE turns IS 'What was said in conversations without an answer so far, keyed as the answer is going to be; the first one stored wins.';
COMMENT ON COLUMN turns.content IS 'What the model said, and which tools it called; a content, encrypted where there are keys.';
CREATE INDEX turns_of_run ON turns (run_id);

CREATE TABLE tool_calls (
    config_hash text NOT NULL,
    target      text NOT NULL,
    run_id      text NOT NULL REFERENCES runs ON DELETE CASCADE,
    item_hash   text NOT NULL,
    replicate   integer NOT NULL,
    turn        integer NOT NULL,
    call        integer NOT NULL,
    begun_by    text,
    result      json,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (config_hash, target, run_id, item_hash, replicate, turn, call)
);
COMMENT ON TABLE tool_calls IS 'Calls of tools in these conversations, by their turn and their place in it.';
COMMENT ON COLUMN tool_calls.begun_by IS 'Of a call with effects: the attempt that was about to make it. Without a result nobody knows whether it took place.';
COMMENT ON COLUMN tool_calls.result IS 'What the model was shown of it; a content.';
CREATE INDEX tool_calls_of_run ON tool_calls (run_id);
