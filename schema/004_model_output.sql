-- How a model writes reasoning and calls of tools (shared/chat): "hermes+think"; '' = not known.
ALTER TABLE models ADD COLUMN output TEXT NOT NULL DEFAULT '';
