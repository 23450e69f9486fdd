#pragma once
// Models of other machines by a connection to the daemon (schema/protocol.md, node.chunks and
// node.range).

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/node/model_sources.h"
#include "shared/client/client.h"

namespace holdfast::cli {

/// Calls a verb with content and waits for the answer. Not on the client's own thread.
Result<client::OpAnswer> call_with_bytes(client::Client& client, const std::string& verb,
                                         const std::string& args, std::string bytes = {});

/// The daemon as a source. Thread-safe.
class ClientSources final : public ModelSources {
 public:
  /// `client` must outlive it.
  explicit ClientSources(client::Client& client) : client_(client) {}

  Result<ModelListing> list(const std::string& sha,
                            const std::vector<std::string>& not_from) override;
  void read(const ModelRange& range, std::function<void(Result<std::string>)> done) override;

 private:
  /// Receipts of answers that have come: with the next read the daemon may send as many again.
  struct Receipts {
    std::mutex mutex;
    std::vector<std::string> fresh;
  };
  client::Client& client_;
  std::shared_ptr<Receipts> receipts_ = std::make_shared<Receipts>();
};

}  // namespace holdfast::cli
