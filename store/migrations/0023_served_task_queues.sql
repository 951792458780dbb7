-- While no worker serves a run, its clock stands still. Workers mark the task queues they serve; what lies between two marks
-- that are far apart was served by nobody.

CREATE TABLE served_task_queues (
    task_queue text PRIMARY KEY,
    marked_at timestamptz NOT NULL
);
COMMENT ON TABLE served_task_queues IS 'When a worker last said that it serves a task queue; each does so every few seconds.';

CREATE TABLE unserved_times (
    task_queue text NOT NULL,
    began_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    PRIMARY KEY (task_queue, began_at)
);
COMMENT ON TABLE unserved_times IS 'When no worker served a task queue; the first one lasted from the beginning of time to its first mark.';

ALTER TABLE runs ADD COLUMN clock jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN runs.clock IS 'How long the run had stood still when it last wrote that down, and how much of it nobody served.';

CREATE FUNCTION unserved_time(task_queues text[], since timestamptz, until timestamptz, bearable interval) RETURNS interval
LANGUAGE sql VOLATILE AS $$
    WITH known AS (  -- before there were marks, nobody can tell
        SELECT greatest(unserved_time.since, applied_at) AS since FROM schema_migrations WHERE version = 23
    )
    SELECT coalesce(sum(upper(part) - lower(part)), interval '0')
    FROM known, unnest((
        SELECT coalesce(range_agg(gap), '{}'::tstzmultirange) FROM (
            SELECT tstzrange(began_at, ended_at) FROM unserved_times
            WHERE task_queue = ANY(task_queues) AND ended_at > unserved_time.since
            UNION ALL
            SELECT tstzrange(coalesce(marked_at, '-infinity'), clock_timestamp())
            FROM unnest(task_queues) AS wanted (name) LEFT JOIN served_task_queues ON task_queue = name
            WHERE coalesce(marked_at, '-infinity') < clock_timestamp() - bearable
        ) AS gaps (gap)
    ) * tstzmultirange(tstzrange(known.since, greatest(known.since, until)))) AS part
$$;
COMMENT ON FUNCTION unserved_time IS 'For how long at least one of some task queues was served by nobody, up to now or to an earlier moment.';
