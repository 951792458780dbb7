-- Budgets of teams: what all runs of a team may take together in a calendar month (UTC), and what they took.
CREATE TABLE team_budgets (
    team          text PRIMARY KEY,
    limit_samples bigint NOT NULL DEFAULT 0,
    limit_tokens  bigint NOT NULL DEFAULT 0,
    limit_cost    double precision NOT NULL DEFAULT 0,
    set_at        timestamptz NOT NULL DEFAULT now(),
    set_by        text NOT NULL
);
COMMENT ON TABLE team_budgets IS 'What a team may spend in any month; without a row there is no limit. Whoever takes something locks the row.';
COMMENT ON COLUMN team_budgets.limit_samples IS '0 is unlimited, in every limit.';

CREATE TABLE team_months (
    team          text NOT NULL,
    month         date NOT NULL,
    spent_samples bigint NOT NULL DEFAULT 0,
    spent_tokens  bigint NOT NULL DEFAULT 0,
    spent_cost    double precision NOT NULL DEFAULT 0,
    lost_samples  bigint NOT NULL DEFAULT 0,
    lost_tokens   bigint NOT NULL DEFAULT 0,
    lost_cost     double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (team, month)
) WITH (fillfactor = 50);
COMMENT ON TABLE team_months IS 'What closed leases took, by the month in which they were opened. Rows stay when runs are deleted: it was spent.';
COMMENT ON COLUMN team_months.month IS 'Its first day.';
COMMENT ON COLUMN team_months.lost_cost IS 'What calls can have cost at most that never said so.';

ALTER TABLE budget_leases ADD COLUMN team text;
ALTER TABLE budget_leases ADD COLUMN month date;
COMMENT ON COLUMN budget_leases.month IS 'Of the team''s account that it takes from as well; nothing where the team had no budget.';
CREATE INDEX budget_leases_of_months ON budget_leases (team, month) WHERE month IS NOT NULL;

ALTER TABLE trials ADD COLUMN team_rest jsonb;
COMMENT ON COLUMN trials.team_rest IS 'What was left of the team''s month, where that did not cover the whole trial.';

CREATE FUNCTION has_team_budget(run text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM team_budgets WHERE team = team_of_run(run))
$$;
COMMENT ON FUNCTION has_team_budget IS 'Whether what a run takes counts in a month of its team.';
