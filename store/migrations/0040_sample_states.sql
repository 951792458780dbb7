-- What became of every sample of a trial, beside what it scored: filters of the matrix read these, and no answer.
ALTER TABLE trials ADD COLUMN sample_states smallint[];
COMMENT ON COLUMN trials.sample_states IS
    'By suite_samples.position, a sum: 1 at least half of its answers passed, 2 one of them failed. NULL where no answer is; of trials of before as a whole.';

-- Which runs began with a prompt, or were to become one: the page of a prompt asks. Specs that are encrypted say nothing here.
CREATE INDEX runs_of_prompt ON runs ((spec #>> '{prompt,name}'));
CREATE INDEX runs_released_to ON runs ((spec #>> '{release,prompt}'));
