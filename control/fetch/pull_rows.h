#pragma once
// The rows of pulls as the fetcher reads and changes them, through the daemon.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/client/client.h"
#include "shared/pull/job.h"

namespace holdfast::fetch {

/// A row with the version that it had.
struct PullRow {
  pull::PullJob job;
  std::int64_t version = 0;
  std::string id;
};

/// Calls over one client. Thread-safe as the client is. Calls block for at most its timeout.
class PullRows {
 public:
  explicit PullRows(client::Client& client) : client_(client) {}

  /// Returns the pulls that have not ended, oldest first.
  Result<std::vector<PullRow>> open_pulls();
  /// Writes the row and counts its version up. kConflict: another has changed it meanwhile;
  /// kUnreachable: the daemon does not answer.
  Result<void> save(PullRow& row);
  /// Reads the row again. kNotFound: it is gone.
  Result<void> reload(PullRow& row);
  /// Registers the model, and has it loaded if that is wanted. The daemon reads the file's header
  /// in a process that may do nothing else.
  Result<void> add_model(const pull::PullJob& job);

 private:
  Result<std::string> call(const std::string& verb, const std::string& args);
  client::Client& client_;
};

}  // namespace holdfast::fetch
