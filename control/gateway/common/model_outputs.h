#pragma once
// How the served models write reasoning and calls, asked of the daemon from time to time.

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shared/client/client.h"

namespace holdfast::gateway {

/// A cache of the models' output descriptions. Thread-safe.
class ModelOutputs {
 public:
  /// Returns wire::ModelInfo::output of a model or alias; nullopt if it must be asked for (again).
  std::optional<std::string> find(const std::string& name) const;
  void put(const std::vector<wire::ModelInfo>& models);

 private:
  static constexpr std::chrono::seconds kFresh{2};  // a name may get another file
  mutable std::mutex mutex_;
  std::map<std::string, std::string> cached_;
  std::chrono::steady_clock::time_point until_{};
};

/// Finds a model's output description in `outputs`, or asks the daemon for it; empty for an unknown
/// model. `done` runs at once or on the SDK's thread.
void find_output(ModelOutputs& outputs, client::Client& client, const std::string& model,
                 std::function<void(client::Answer<std::string>)> done);

}  // namespace holdfast::gateway
