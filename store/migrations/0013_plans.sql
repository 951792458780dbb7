-- What a run can find out, and how much the scores of its baseline vary.

ALTER TABLE runs
    ADD COLUMN plan  jsonb,
    ADD COLUMN noise jsonb;
COMMENT ON COLUMN runs.plan IS 'The smallest gain that the run can find, and how surely; before the noise is measured, at worst.';
COMMENT ON COLUMN runs.noise IS 'How much scores vary within samples and between them, where that was measured first.';
