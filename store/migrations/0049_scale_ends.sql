-- What the ends of a scale mean is said by whoever asks.
ALTER TABLE label_questions ADD COLUMN ends text[];
COMMENT ON COLUMN label_questions.ends IS 'What the lowest and the highest step of a scale mean; empty for worst and best.';
