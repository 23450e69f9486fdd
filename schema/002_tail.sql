-- Tokens as they are committed. One group adds a token to many requests: where they are kept by
-- request that is a page for each of them, here it is one. When there are many rows they move to
-- `settled`, a long row for each choice, and this table is emptied. `chunks` shows both.
ALTER TABLE chunks RENAME TO settled;

CREATE TABLE tail (
  pos    INTEGER PRIMARY KEY,  -- order of commit
  seq    INTEGER NOT NULL,
  choice INTEGER NOT NULL,
  start  INTEGER NOT NULL,     -- the rest as in settled
  ids    BLOB NOT NULL,
  extra  TEXT,
  crc    INTEGER NOT NULL
) STRICT;

CREATE VIEW chunks AS
  SELECT seq, choice, start, ids, extra, crc FROM settled
  UNION ALL
  SELECT seq, choice, start, ids, extra, crc FROM tail;
