-- Samples that name the split they belong to.
ALTER TABLE samples ADD COLUMN splits text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN samples.splits IS 'Those it was given in, most often one; empty where the dataset says nothing of splits.';
