-- Batches of further providers, one of which takes all requests with the batch, so that sending it may take longer.
ALTER TABLE batches ADD COLUMN provider text NOT NULL DEFAULT 'openai';
ALTER TABLE batches ADD COLUMN longest_sending double precision NOT NULL DEFAULT 10;
COMMENT ON COLUMN batches.provider IS 'In whose protocol it is sent.';
COMMENT ON COLUMN batches.longest_sending IS 'Seconds after sending_at from which on nothing of it arrives any more.';
