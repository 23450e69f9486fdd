#include "control/replication/copied_files.h"

#include "control/replication/change_list.h"
#include "control/replication/standby_note.h"

namespace holdfast::replication {
namespace {

constexpr const char* kNames[] = {"control.db", "control.db-wal"};
// Files that belong to a database, and are of no use with another one.
constexpr const char* kCompanions[] = {"control.db", "control.db-wal", "control.db-shm",
                                       "control.mark"};

}  // namespace

void CopiedFiles::close() {
  for (auto& file : open_) file.reset();
}

Result<void> CopiedFiles::begin() {
  close();
  const std::string folder = state_dir_ + "/copy";
  HOLDFAST_CHECKED(files_.begin_folder(folder));
  for (std::size_t i = 0; i < 2; ++i) {
    HOLDFAST_TRY(open_[i], files_.make_file(folder + "/" + kNames[i]));
  }
  return {};
}

Result<void> CopiedFiles::apply(std::string_view changes) {
  ChangeReader reader(changes);
  while (!reader.at_end()) {
    HOLDFAST_TRY(const Change change, reader.next());
    CopyFile& file = *open_[static_cast<std::size_t>(change.file)];
    HOLDFAST_CHECKED(change.truncates ? file.truncate(change.at)
                                      : file.write(change.at, change.bytes));
  }
  return {};
}

Result<void> CopiedFiles::sync() {
  // The log first: pages that a checkpoint moved are in it too, until it begins anew.
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    HOLDFAST_CHECKED(open_[i]->sync());
  }
  return {};
}

Result<void> CopiedFiles::complete() {
  HOLDFAST_CHECKED(sync());
  const auto note = read_standby_note(state_dir_, files_);
  const bool was_copy = note && note->is_standby;
  const std::string before = state_dir_ + "/before-standby";
  if (!was_copy && files_.exists(state_dir_ + "/control.db")) {
    HOLDFAST_CHECKED(files_.begin_folder(before));
  }
  for (const char* name : kCompanions) {
    const std::string path = state_dir_ + "/" + name;
    if (!files_.exists(path)) continue;
    HOLDFAST_CHECKED(was_copy ? files_.remove(path) : files_.rename(path, before + "/" + name));
  }
  for (const char* name : {kNames[1], kNames[0]}) {
    HOLDFAST_CHECKED(files_.rename(state_dir_ + "/copy/" + name, state_dir_ + "/" + name));
  }
  return files_.sync_directory(state_dir_);
}

}  // namespace holdfast::replication
