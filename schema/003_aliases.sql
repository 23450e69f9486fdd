-- Names that stand for models, canaries, and where a request was routed by them.
ALTER TABLE models ADD COLUMN tokenizer_sha TEXT NOT NULL DEFAULT '';  -- of tokenizer and chat
                                                                       -- template; '' = not known
ALTER TABLE requests ADD COLUMN alias TEXT NOT NULL DEFAULT '';         -- the name asked for
ALTER TABLE requests ADD COLUMN route_key INTEGER NOT NULL DEFAULT 0;   -- hash of what is sticky
ALTER TABLE requests ADD COLUMN canary INTEGER NOT NULL DEFAULT 0;      -- run that it is part of
ALTER TABLE requests ADD COLUMN rerouted_from TEXT NOT NULL DEFAULT ''; -- model before a rollback

CREATE TABLE aliases (
  name        TEXT PRIMARY KEY,
  id          INTEGER NOT NULL UNIQUE,  -- part of the routing hash
  targets     TEXT NOT NULL,            -- MODEL=WEIGHT,…
  pending     TEXT NOT NULL,            -- take the targets' place when their models are ready
  pending_who TEXT NOT NULL,
  pending_ms  INTEGER NOT NULL,
  created_ms  INTEGER NOT NULL,
  changed_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE alias_history (
  id           INTEGER PRIMARY KEY,
  alias        TEXT NOT NULL,
  at_ms        INTEGER NOT NULL,
  who          TEXT NOT NULL,
  action       TEXT NOT NULL,
  from_targets TEXT NOT NULL,
  to_targets   TEXT NOT NULL,
  reason       TEXT NOT NULL
) STRICT;
CREATE INDEX alias_history_of ON alias_history(alias, id);

CREATE TABLE canaries (
  id         INTEGER PRIMARY KEY,
  alias      TEXT NOT NULL,
  model      TEXT NOT NULL,
  state      TEXT NOT NULL,     -- loading, running, rolled_back, promoted
  settings   TEXT NOT NULL,     -- JSON: share, window, bounds
  windows    INTEGER NOT NULL,  -- judged so far
  passed     INTEGER NOT NULL,  -- of these, in a row without a breach
  suspect    INTEGER NOT NULL,  -- the last one had a breach
  started_ms INTEGER NOT NULL,
  ended_ms   INTEGER NOT NULL,
  who        TEXT NOT NULL,
  reason     TEXT NOT NULL
) STRICT;

CREATE TABLE canary_windows (  -- each decision with the numbers that it was made from
  canary      INTEGER NOT NULL REFERENCES canaries(id),
  window      INTEGER NOT NULL,  -- from 1
  started_ms  INTEGER NOT NULL,
  ended_ms    INTEGER NOT NULL,
  decision    TEXT NOT NULL,     -- continue, roll back, promote
  reason      TEXT NOT NULL,
  canary_side TEXT NOT NULL,     -- JSON
  stable_side TEXT NOT NULL,
  PRIMARY KEY (canary, window)
) STRICT, WITHOUT ROWID;
