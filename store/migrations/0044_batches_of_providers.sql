-- Batches of further providers, which take all requests with the batch, so that sending it may take longer; and of judges.
ALTER TABLE batches ADD COLUMN provider text NOT NULL DEFAULT 'openai';
ALTER TABLE batches ADD COLUMN longest_sending double precision NOT NULL DEFAULT 10;
ALTER TABLE batches ADD COLUMN scorer text;
ALTER TABLE batch_requests ADD COLUMN reply json;
COMMENT ON COLUMN batches.provider IS 'In whose protocol it is sent.';
COMMENT ON COLUMN batches.longest_sending IS 'Seconds after sending_at from which on nothing of it arrives any more.';
COMMENT ON COLUMN batches.scorer IS 'The judge that is asked, by its field in the spec. NULL where the target is.';
COMMENT ON COLUMN batch_requests.reply IS 'What a judge replied, until the scores that it is needed for are made. A content.';
