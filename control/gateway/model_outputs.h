#pragma once
// How the models that are served write reasoning and calls, asked of the daemon now and then.

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shared/client/client.h"

namespace holdfast::gateway {

/// Thread-safe.
class ModelOutputs {
 public:
  /// wire::ModelInfo::output of a model or alias; nullopt: to be asked for (again).
  std::optional<std::string> find(const std::string& name) const;
  void put(const std::vector<wire::ModelInfo>& models);

 private:
  static constexpr std::chrono::seconds kFresh{2};  // a name may get another file
  mutable std::mutex mutex_;
  std::map<std::string, std::string> known_;
  std::chrono::steady_clock::time_point until_{};
};

/// What `outputs` knows of a model, or asks the daemon for; empty for a model that nobody knows.
/// `done` runs at once or on the SDK's thread.
void find_output(ModelOutputs& outputs, client::Client& client, const std::string& model,
                 std::function<void(client::Answer<std::string>)> done);

}  // namespace holdfast::gateway
