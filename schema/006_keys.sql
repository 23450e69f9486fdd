-- Which API key a request came with, for the limits of that key.
ALTER TABLE requests ADD COLUMN api_key TEXT NOT NULL DEFAULT '';  -- id of the key; '' = none
-- A start counts the live requests of each key from the index alone.
DROP INDEX requests_live;
CREATE INDEX requests_live ON requests(state, seq, api_key)
  WHERE state IN ('queued', 'running', 'quarantined');
