#pragma once
// Where a client's requests go: a server on this machine, or one elsewhere.

#include <memory>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/client/client.h"
#include "shared/remote/address.h"

namespace holdfast::sdk {

/// A server, with what holdfast.h can ask of it. Documents are JSON texts. Blocking calls wait some
/// 30 s for a server that is away. Thread-safe.
class Server {
 public:
  virtual ~Server() = default;

  /// Returns the id of the accepted request. `request`: a JSON object, as holdfast.h has it.
  virtual client::Answer<std::string> submit(std::string_view request) = 0;
  virtual client::Answer<std::string> status(const std::string& id) = 0;
  virtual client::Answer<std::string> cancel(const std::string& id) = 0;
  virtual client::Answer<std::string> models() = 0;
  /// Does an operator verb; returns its document.
  virtual client::Answer<std::string> operate(const std::string& verb, const std::string& args) = 0;
  /// Ends the server's processes.
  virtual Result<void> stop() = 0;

  /// Streams a request from its first token on. Handlers run on a thread of the server's, which is
  /// theirs until close_stream() returns or a little longer, so they share what they use.
  virtual client::StreamId open_stream(const std::string& id, client::StreamHandler handler) = 0;
  /// Makes the sender wait for a slow reader, or go on.
  virtual void hold_stream(client::StreamId stream, bool hold) = 0;
  virtual void close_stream(client::StreamId stream) = 0;
};

/// Connects to the server of a state directory. `start`: where none runs one is started.
Result<std::unique_ptr<Server>> open_local(const std::string& state_dir, bool start);
/// Connects to a server elsewhere by "tcp://HOST:PORT", with the key file of HOLDFAST_KEY_FILE.
Result<std::unique_ptr<Server>> open_listener(const std::string& url);
/// Makes a server of an address. It connects with each call.
std::unique_ptr<Server> open_remote(remote::Address address);

}  // namespace holdfast::sdk
