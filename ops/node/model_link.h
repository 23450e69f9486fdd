#pragma once
// A node's exchange of models with other machines: fetches those that the daemon says it lacks, one
// at a time, and gives ranges of its own to other nodes while the daemon says that one of them may
// need them. On a connection and threads of its own, so that reports and workers do not wait.

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/client/peer_key.h"
#include "shared/model_index/model_index.h"

namespace holdfast::cli {

/// Options of the exchange.
struct ModelLinkOptions {
  std::string endpoint;  // "tcp://HOST:PORT"
  client::PeerKeyFile key;
  std::string index_file;            // the models of this machine
  std::string root;                  // models that come are put below it
  bool quiet = false;                // no lines on stderr
  std::function<void()> on_arrival;  // a model is there; on a thread of the link
};

/// The threads that fetch and give models. Its methods may be called from any thread.
class ModelLink {
 public:
  /// Starts the threads. kIo: no connection can be made.
  static Result<std::unique_ptr<ModelLink>> start(ModelLinkOptions options);
  ~ModelLink();  // ends them; what was fetched stays

  /// Adds to the arguments of a report how the fetches are.
  void add_progress(nlohmann::json& args) const;
  /// Takes the answer to a report: what this node lacks and whether it is needed as a source.
  void follow(const std::string& answer);
  /// Returns the models that have come since the last call.
  std::vector<model_index::Entry> take_arrived();

 private:
  struct Shared;
  explicit ModelLink(std::shared_ptr<Shared> shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace holdfast::cli
