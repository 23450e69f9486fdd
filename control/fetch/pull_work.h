#pragma once
// Work on one pull, from wherever it was left, on the calling thread.

#include <functional>
#include <string>

#include "control/fetch/blob_store.h"
#include "control/fetch/pull_rows.h"

namespace holdfast::fetch {

/// Where models go, and when work ends early.
struct PullWorkOptions {
  std::string models_dir;  // absolute
  std::string run_dir;     // where the daemon says where models may lie
  std::string boot_id;     // of this machine's start
  const BlobStore* blobs = nullptr;
  std::function<bool()> stopping;
};

/// Brings the pull to an end or as far as it comes: asks for its files, downloads them, registers
/// the model. A failure that may pass leaves the row waiting with the time of the next try.
/// Returns early if the pull was cancelled (then what it left is deleted), or if `stopping`.
/// `adding`: rows over a client that waits for long, as the daemon reads the whole file. Blocks.
void work_on_pull(PullRow row, PullRows& rows, PullRows& adding, const PullWorkOptions& options);

/// Returns the pause after the `tries`th try in a row without a byte.
std::int64_t pause_ms(std::int64_t tries);

}  // namespace holdfast::fetch
