-- What a first look at the baseline's answers has found.
ALTER TABLE runs ADD COLUMN first_look jsonb;
COMMENT ON COLUMN runs.first_look IS 'Three answers of the baseline, and what is probably wrong with how they are measured.';
