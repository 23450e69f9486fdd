-- What gateways keep for their clients: files, batches, responses.
CREATE TABLE objects (
  seq        INTEGER PRIMARY KEY,
  kind       TEXT NOT NULL,
  id         TEXT NOT NULL,
  owner      TEXT NOT NULL,
  version    INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,  -- 0 = never
  body       TEXT NOT NULL,     -- JSON
  bytes      INTEGER NOT NULL,  -- of its content
  crc        INTEGER NOT NULL,  -- CRC-32C of body
  UNIQUE (kind, id)
) STRICT;
CREATE INDEX objects_of ON objects(kind, owner, seq);
CREATE INDEX objects_end ON objects(expires_ms) WHERE expires_ms > 0;

CREATE TABLE object_parts (  -- the content, in pieces
  seq  INTEGER NOT NULL,
  at   INTEGER NOT NULL,     -- first byte
  data BLOB NOT NULL,
  crc  INTEGER NOT NULL,     -- CRC-32C
  PRIMARY KEY (seq, at)
) STRICT;
