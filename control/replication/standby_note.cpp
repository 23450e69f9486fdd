#include "control/replication/standby_note.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::replication {

namespace {

std::string path_of(const std::string& state_dir) {
  return state_dir + "/standby.json";
}

}  // namespace

std::optional<StandbyNote> read_standby_note(const std::string& state_dir, StateFiles& files) {
  const auto text = files.read(path_of(state_dir));
  if (!text) return std::nullopt;
  const auto json = try_parse_json<nlohmann::json>(*text);
  if (!json.is_object()) return std::nullopt;
  StandbyNote note;
  note.is_standby = json.value("standby", false);
  note.primary = json.value("primary", std::string());
  note.term = json.value("term", std::uint64_t{0});
  note.complete = json.value("complete", false);
  note.in_step = json.value("in_step", false);
  note.boot = json.value("boot", std::string());
  return note;
}

Result<void> write_standby_note(const std::string& state_dir, const StandbyNote& note,
                                StateFiles& files) {
  const nlohmann::json json = {{"standby", note.is_standby}, {"primary", note.primary},
                               {"term", note.term},          {"complete", note.complete},
                               {"in_step", note.in_step},    {"boot", note.boot}};
  // On the disk before anybody goes on: a machine that lost its power finds the old note or this.
  const std::string fresh = path_of(state_dir) + ".new";
  {
    HOLDFAST_TRY(const auto file, files.make_file(fresh));
    HOLDFAST_CHECKED(file->write(0, json.dump() + "\n"));
    HOLDFAST_CHECKED(file->sync());
  }
  HOLDFAST_CHECKED(files.rename(fresh, path_of(state_dir)));
  return files.sync_directory(state_dir);
}

}  // namespace holdfast::replication
