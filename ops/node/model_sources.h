#pragma once
// Where a node gets the bytes of a model from: the daemon's machine, and other nodes by the daemon.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/model_index/chunks.h"

namespace holdfast::cli {

/// The answer to where a model can be had.
struct ModelListing {
  bool ready = false;  // false: its chunks are being hashed, `hashed_bytes` so far
  std::int64_t hashed_bytes = 0;
  model_index::ChunkList list;
  /// The daemon's machine made the list when it hashed the registered model; else the model's whole
  /// hash must be looked at in the end, and a wrong one is the fault of `list_source`.
  bool verified = false;
  std::string list_source;
  std::vector<std::string> sources;  // names of nodes; an empty one: the daemon's machine
  std::int64_t range_bytes = 0;      // most bytes of one read
};

/// A range of one file of a model.
struct ModelRange {
  std::string sha;
  std::int64_t file = 0;  // in the list's order
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::string source;  // one of ModelListing::sources
};

/// Returns "the daemon's machine" or "node NAME".
std::string source_text(const std::string& source);

/// The machines that have models. Thread-safe.
class ModelSources {
 public:
  virtual ~ModelSources() = default;
  /// Says where a model is; its chunks not by the nodes `not_from`, whose lists were wrong. Blocks.
  /// kNotFound: nowhere now.
  virtual Result<ModelListing> list(const std::string& sha,
                                    const std::vector<std::string>& not_from) = 0;
  /// Reads a range. `done` is called once, on any thread.
  virtual void read(const ModelRange& range, std::function<void(Result<std::string>)> done) = 0;
};

}  // namespace holdfast::cli
