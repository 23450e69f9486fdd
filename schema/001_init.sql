-- The database of the daemon. Times are Unix milliseconds, 0 = not yet. Scripts may read every table
-- (mode=ro, short transactions) while the daemon runs; only the daemon writes.

CREATE TABLE epochs (
  epoch      INTEGER PRIMARY KEY,   -- raised at each start of the daemon, before a socket is bound
  started_ms INTEGER NOT NULL,
  pid        INTEGER NOT NULL,
  program    TEXT NOT NULL
) STRICT;

CREATE TABLE requests (
  seq               INTEGER PRIMARY KEY,  -- order of acceptance
  id                TEXT NOT NULL UNIQUE,
  tenant            TEXT NOT NULL,
  idem_key          TEXT,
  body_hash         TEXT NOT NULL,
  model             TEXT NOT NULL,
  model_sha         TEXT NOT NULL,
  state             TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed',
                                                   'cancelled', 'expired', 'quarantined')),
  priority          INTEGER NOT NULL,
  class             TEXT NOT NULL DEFAULT '',  -- numerics class, bound by the first committed token
  config_version    INTEGER NOT NULL,
  n                 INTEGER NOT NULL,
  max_tokens        INTEGER NOT NULL,
  on_disconnect     INTEGER NOT NULL,          -- 0 continue, 1 cancel
  created_ms        INTEGER NOT NULL,
  started_ms        INTEGER NOT NULL DEFAULT 0,
  finished_ms       INTEGER NOT NULL DEFAULT 0,
  queue_deadline_ms INTEGER NOT NULL DEFAULT 0,
  total_deadline_ms INTEGER NOT NULL DEFAULT 0,
  error_code        TEXT NOT NULL DEFAULT '',
  error             TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX requests_idem ON requests(tenant, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX requests_live ON requests(state, seq)
  WHERE state IN ('queued', 'running', 'quarantined');

CREATE TABLE payloads (
  seq         INTEGER PRIMARY KEY REFERENCES requests(seq),
  params      TEXT NOT NULL,    -- JSON: sampling as resolved, stops, echo
  meta        TEXT NOT NULL,
  prompts     BLOB NOT NULL,    -- u32 count, count x u32 length, all ids as i32, little-endian
  prompt_text TEXT,             -- JSON array, only with echo
  crc         INTEGER NOT NULL  -- crc32c of prompts
) STRICT;

CREATE TABLE choices (
  seq          INTEGER NOT NULL REFERENCES requests(seq),
  choice       INTEGER NOT NULL,
  prompt       INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  next_index   INTEGER NOT NULL DEFAULT 0,  -- committed tokens
  finish       TEXT NOT NULL DEFAULT 'none',
  error_code   TEXT NOT NULL DEFAULT '',
  error        TEXT NOT NULL DEFAULT '',
  deaths       INTEGER NOT NULL DEFAULT 0,  -- deaths of workers that count against it
  deaths_index INTEGER NOT NULL DEFAULT -1, -- next_index at the last of them
  PRIMARY KEY (seq, choice)
) STRICT, WITHOUT ROWID;

CREATE TABLE chunks (
  seq    INTEGER NOT NULL,
  choice INTEGER NOT NULL,
  start  INTEGER NOT NULL,   -- index of the first id
  ids    BLOB NOT NULL,      -- i32 little-endian
  extra  TEXT,               -- JSON array, one string a token, or NULL
  crc    INTEGER NOT NULL,   -- crc32c of ids and extra
  PRIMARY KEY (seq, choice, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  seq           INTEGER NOT NULL,
  choice        INTEGER NOT NULL,
  fence_epoch   INTEGER NOT NULL,
  fence_counter INTEGER NOT NULL,
  worker_key    TEXT NOT NULL,
  incarnation   TEXT NOT NULL,
  load_id       TEXT NOT NULL,
  start_index   INTEGER NOT NULL,
  end_index     INTEGER,
  adopted       INTEGER NOT NULL DEFAULT 0,
  started_ms    INTEGER NOT NULL,
  ended_ms      INTEGER,
  reason        TEXT,
  PRIMARY KEY (seq, choice, fence_epoch, fence_counter)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_open ON attempts(seq, choice) WHERE ended_ms IS NULL;

CREATE TABLE models (
  name          TEXT PRIMARY KEY,
  sha           TEXT NOT NULL,
  path          TEXT NOT NULL,
  size          INTEGER NOT NULL,
  mtime_ns      INTEGER NOT NULL,
  architecture  TEXT NOT NULL,
  context       INTEGER NOT NULL,
  slots         INTEGER NOT NULL,
  pages         INTEGER NOT NULL,
  prefill_chunk INTEGER NOT NULL,
  kv_type       TEXT NOT NULL,
  vocab         INTEGER NOT NULL,
  chat          INTEGER NOT NULL,
  weights_bytes INTEGER NOT NULL,
  kv_bytes      INTEGER NOT NULL,
  scratch_bytes INTEGER NOT NULL,
  options       TEXT NOT NULL,
  shape         TEXT NOT NULL,
  wanted        INTEGER NOT NULL,
  state         TEXT NOT NULL,
  reason        TEXT NOT NULL,
  created_ms    INTEGER NOT NULL,
  last_used_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE model_blobs (  -- by content hash: several names may share a file
  sha       TEXT PRIMARY KEY,
  tokenizer BLOB NOT NULL,  -- a GGUF without tensors
  pieces    BLOB NOT NULL   -- the bytes of every token
) STRICT;

CREATE TABLE loads (
  load_id     TEXT PRIMARY KEY,
  model       TEXT NOT NULL,
  model_sha   TEXT NOT NULL,
  worker_key  TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  state       TEXT NOT NULL,
  class       TEXT NOT NULL,
  slots       INTEGER NOT NULL,
  pages       INTEGER NOT NULL,
  page_tokens INTEGER NOT NULL,
  context     INTEGER NOT NULL,
  reason      TEXT NOT NULL,
  created_ms  INTEGER NOT NULL,
  ready_ms    INTEGER NOT NULL,
  ended_ms    INTEGER NOT NULL
) STRICT;
CREATE INDEX loads_open ON loads(load_id) WHERE ended_ms = 0;

CREATE TABLE reservations (  -- memory that a load may use, from the decision to its end
  load_id    TEXT PRIMARY KEY REFERENCES loads(load_id),
  worker_key TEXT NOT NULL,
  bytes      INTEGER NOT NULL
) STRICT;

CREATE TABLE transitions (
  id            INTEGER PRIMARY KEY,
  subject       TEXT NOT NULL,  -- model, load, worker
  key           TEXT NOT NULL,
  from_state    TEXT NOT NULL,
  to_state      TEXT NOT NULL,
  at_ms         INTEGER NOT NULL,
  memory_before INTEGER NOT NULL,  -- free bytes of the device, as the worker reported them
  memory_after  INTEGER NOT NULL,
  reason        TEXT NOT NULL
) STRICT;

CREATE TABLE config_versions (
  version INTEGER PRIMARY KEY,
  at_ms   INTEGER NOT NULL,
  source  TEXT NOT NULL,
  content TEXT NOT NULL  -- JSON object: what differs from the defaults
) STRICT;

CREATE TABLE flags (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE outbox (  -- messages to the outside that must survive a crash until they are confirmed
  id         INTEGER PRIMARY KEY,
  seq        INTEGER NOT NULL,
  kind       TEXT NOT NULL,
  target     TEXT NOT NULL,
  body       BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  sent_ms    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE files (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL,
  name       TEXT NOT NULL,
  purpose    TEXT NOT NULL,
  bytes      INTEGER NOT NULL,
  sha        TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  state      TEXT NOT NULL
) STRICT;
