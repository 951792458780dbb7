-- What calls without an answer can have taken is no sign of what a call takes: the confirmation's share goes by answers alone.
COMMENT ON COLUMN budgets.cost_of_calls IS 'Of what was spent: trials, without proposals. By it the confirmation''s share is reckoned.';
