-- Secrets of this database, made at the first start: 32 random bytes each. Who has none of them
-- cannot compute what is derived from one.
CREATE TABLE secrets (
  name  TEXT PRIMARY KEY,  -- ids: of ids that stand for an Idempotency-Key; prefix: of pages' roots
  value BLOB NOT NULL
) STRICT;
