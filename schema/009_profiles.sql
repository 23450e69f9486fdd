-- What a name of a model adds to its file: template, system message, parameters, as JSON
-- (shared/profile/profile.h); '' = nothing.
ALTER TABLE models ADD COLUMN profile TEXT NOT NULL DEFAULT '';
-- A checksum is the exclusive or of the columns' parts: the new column's part is put in, and what
-- was damaged before stays visible.
UPDATE models SET checksum = (checksum | row_checksum('profile', profile))
  - (checksum & row_checksum('profile', profile));
