#pragma once
// A state directory that is removed after the test, and rows to put into it.

#include <string>
#include <vector>

#include "control/store/store.h"

namespace holdfast::store {

/// A temporary state directory.
class TempState {
 public:
  /// Makes it on the disk, or (`in_memory`) where a sync costs nothing, for tests of many commits.
  explicit TempState(bool in_memory = false);
  ~TempState();
  TempState(const TempState&) = delete;
  const std::string& dir() const { return dir_; }
  std::string db() const { return dir_ + "/control.db"; }

 private:
  std::string dir_;
};

std::unique_ptr<Store> open_store(const std::string& dir);

/// A request of one choice with a prompt of four tokens.
core::InsertRequest request_row(core::Seq seq, const std::string& idem_key = "");
core::InsertChunk chunk(core::Seq seq, std::int64_t start, std::vector<core::TokenId> ids);
core::UpdateChoice progress(core::Seq seq, std::int64_t next_index);
/// Applies the rows and CHECKs that it worked.
void commit(Store& store, const std::vector<core::RowChange>& rows,
            core::Durability durability = core::Durability::kFull);

/// Runs SQL past the store, on a connection of its own.
void run_sql(const std::string& path, const std::string& sql);
/// Runs SQL and gives all rows new checksums, so that they count as written.
void rewrite_rows(const std::string& path, const std::string& sql);
std::string read_sql(const std::string& path, const std::string& sql);

}  // namespace holdfast::store
