-- A name of who approved is what its owner said; beside it stands what is known of him.

ALTER TABLE releases ADD COLUMN decided_through text NOT NULL DEFAULT '';
COMMENT ON COLUMN releases.decided_through IS 'How decided_by was established: by which token or operating system user; empty where nobody can tell.';
