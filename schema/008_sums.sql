-- A checksum in each row over what the row says (control/store/row_checksum.h). Requests and what
-- belongs to them may be many and large: those that are older than this schema have none (NULL) and
-- leave with retention, or get theirs by `db check --repair`. All other rows get theirs here.
ALTER TABLE epochs ADD COLUMN checksum INTEGER;
ALTER TABLE requests ADD COLUMN checksum INTEGER;
ALTER TABLE payloads ADD COLUMN checksum INTEGER;  -- `crc` is that of prompts alone
ALTER TABLE choices ADD COLUMN checksum INTEGER;
ALTER TABLE attempts ADD COLUMN checksum INTEGER;
ALTER TABLE models ADD COLUMN checksum INTEGER;
ALTER TABLE model_blobs ADD COLUMN checksum INTEGER;
ALTER TABLE loads ADD COLUMN checksum INTEGER;
ALTER TABLE reservations ADD COLUMN checksum INTEGER;
ALTER TABLE transitions ADD COLUMN checksum INTEGER;
ALTER TABLE config_versions ADD COLUMN checksum INTEGER;
ALTER TABLE flags ADD COLUMN checksum INTEGER;
ALTER TABLE secrets ADD COLUMN checksum INTEGER;
ALTER TABLE aliases ADD COLUMN checksum INTEGER;
ALTER TABLE alias_history ADD COLUMN checksum INTEGER;
ALTER TABLE canaries ADD COLUMN checksum INTEGER;
ALTER TABLE canary_windows ADD COLUMN checksum INTEGER;
ALTER TABLE objects ADD COLUMN checksum INTEGER;   -- `crc` is that of the body alone

UPDATE epochs SET checksum = row_checksum('epoch', epoch, 'started_ms', started_ms, 'pid', pid,
  'program', program);
UPDATE models SET checksum = row_checksum('name', name, 'sha', sha, 'path', path, 'size', size,
  'mtime_ns', mtime_ns, 'architecture', architecture, 'context', context, 'slots', slots,
  'pages', pages, 'prefill_chunk', prefill_chunk, 'kv_type', kv_type, 'vocab', vocab, 'chat', chat,
  'weights_bytes', weights_bytes, 'kv_bytes', kv_bytes, 'scratch_bytes', scratch_bytes,
  'options', options, 'shape', shape, 'wanted', wanted, 'state', state, 'reason', reason,
  'created_ms', created_ms, 'last_used_ms', last_used_ms, 'tokenizer_sha', tokenizer_sha,
  'output', output);
UPDATE model_blobs SET checksum = row_checksum('sha', sha, 'tokenizer', tokenizer,
  'pieces', pieces);
UPDATE loads SET checksum = row_checksum('load_id', load_id, 'model', model,
  'model_sha', model_sha, 'worker_key', worker_key, 'incarnation', incarnation, 'state', state,
  'class', class, 'slots', slots, 'pages', pages, 'page_tokens', page_tokens, 'context', context,
  'reason', reason, 'created_ms', created_ms, 'ready_ms', ready_ms, 'ended_ms', ended_ms);
UPDATE reservations SET checksum = row_checksum('load_id', load_id, 'worker_key', worker_key,
  'bytes', bytes);
UPDATE transitions SET checksum = row_checksum('subject', subject, 'key', key,
  'from_state', from_state, 'to_state', to_state, 'at_ms', at_ms, 'memory_before', memory_before,
  'memory_after', memory_after, 'reason', reason);
UPDATE config_versions SET checksum = row_checksum('version', version, 'at_ms', at_ms,
  'source', source, 'content', content);
UPDATE secrets SET checksum = row_checksum('name', name, 'value', value);
UPDATE flags SET checksum = row_checksum('name', name, 'value', value);
UPDATE aliases SET checksum = row_checksum('name', name, 'id', id, 'targets', targets,
  'pending', pending, 'pending_who', pending_who, 'pending_ms', pending_ms,
  'created_ms', created_ms, 'changed_ms', changed_ms);
UPDATE alias_history SET checksum = row_checksum('alias', alias, 'at_ms', at_ms, 'who', who,
  'action', action, 'from_targets', from_targets, 'to_targets', to_targets, 'reason', reason);
UPDATE canaries SET checksum = row_checksum('id', id, 'alias', alias, 'model', model,
  'state', state, 'settings', settings, 'windows', windows, 'passed', passed, 'suspect', suspect,
  'started_ms', started_ms, 'ended_ms', ended_ms, 'who', who, 'reason', reason);
UPDATE canary_windows SET checksum = row_checksum('canary', canary, 'window', window,
  'started_ms', started_ms, 'ended_ms', ended_ms, 'decision', decision, 'reason', reason,
  'canary_side', canary_side, 'stable_side', stable_side);
UPDATE objects SET checksum = row_checksum('seq', seq, 'kind', kind, 'id', id, 'owner', owner,
  'version', version, 'created_ms', created_ms, 'changed_ms', changed_ms,
  'expires_ms', expires_ms, 'bytes', bytes, 'crc', crc);

CREATE TABLE log_mark (  -- one row; STATE/control.mark has a copy, to find out a lost log
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  database  TEXT NOT NULL,     -- another one for each database, and after each restore
  synced    INTEGER NOT NULL,  -- groups that were committed and synced, ever
  unsummed  INTEGER NOT NULL,  -- requests up to this seq may have no checksum
  checksum  INTEGER
) STRICT;
INSERT INTO log_mark(id, database, synced, unsummed)
  VALUES (1, lower(hex(randomblob(16))), 0, (SELECT coalesce(max(seq), 0) FROM requests));
UPDATE log_mark SET checksum = row_checksum('database', database, 'synced', synced,
  'unsummed', unsummed);
