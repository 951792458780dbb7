-- Answers that people label, one question at a time. No decision reads it.
CREATE TABLE label_questions (
    question_id bigserial PRIMARY KEY,
    run_id      text NOT NULL REFERENCES runs ON DELETE CASCADE,
    kind        text NOT NULL CHECK (kind IN ('right_or_wrong', 'scale', 'categories', 'better_of_two')),
    words       text NOT NULL,
    categories  text[] NOT NULL,
    drawn       text NOT NULL CHECK (drawn IN ('random', 'disagreement')),
    seed        bigint NOT NULL,
    candidates  text[] NOT NULL,
    purpose     text NOT NULL,
    drawn_from  bigint NOT NULL,
    who         text NOT NULL,
    through     text NOT NULL,
    at          timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE label_questions IS 'What people are asked about answers of a run, and how these answers were drawn.';
COMMENT ON COLUMN label_questions.words IS 'The question, a content, and encrypted where there are keys.';
COMMENT ON COLUMN label_questions.categories IS 'What can be said, in the order in which it is offered; of a scale its steps, the lowest first.';
COMMENT ON COLUMN label_questions.seed IS 'With it the same answers are drawn again in the same order.';
COMMENT ON COLUMN label_questions.purpose IS 'candidate for the trials of the search, confirmation for those of the confirmation.';
COMMENT ON COLUMN label_questions.drawn_from IS 'How many answers, or pairs of answers, there were to draw from.';
CREATE INDEX label_questions_of_run ON label_questions (run_id, question_id);

CREATE TABLE label_items (
    question_id        bigint NOT NULL REFERENCES label_questions ON DELETE CASCADE,
    position           integer NOT NULL,
    item_hash          text NOT NULL,
    candidate_id       text NOT NULL,
    config_hash        text NOT NULL,
    target             text NOT NULL,
    replicate          integer NOT NULL,
    other_candidate_id text,
    other_config_hash  text,
    other_target       text,
    other_replicate    integer,
    PRIMARY KEY (question_id, position)
);
COMMENT ON TABLE label_items IS 'The queue of a question: answers, by their keys, in the order in which they were drawn; of two, the first is shown first.';

CREATE TABLE labels (
    question_id bigint NOT NULL,
    position    integer NOT NULL,
    who         text NOT NULL,
    through     text NOT NULL,
    label       text NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    changed_at  timestamptz,
    PRIMARY KEY (question_id, position, who),
    FOREIGN KEY (question_id, position) REFERENCES label_items ON DELETE CASCADE
);
COMMENT ON TABLE labels IS 'What people said of answers: one label of each person for each of them, one of the categories of the question.';
COMMENT ON COLUMN labels.who IS 'The name of a token, or how its holder is called; through says how that is known.';
