#pragma once
// The client SDK: submit, stream, attach, cancel, status over ZeroMQ. A stream goes on by itself
// over restarts of the daemon and the workers; each token is delivered exactly once, in order.
//
//   auto client = Client::connect("ipc://…/run/clients.sock").value();
//   wire::Submit submit;  submit.model = "demo";  submit.prompts = {{.text = "To be"}};
//   const Principal me = Principal::local();       // whose it is, in every call
//   auto accepted = client->submit(me, submit);    // blocks until the request is durable
//   auto fin = client->stream(me, accepted->info.request_id, {}, [](const wire::Event& e) { … });

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/result.h"
#include "shared/client/principal.h"
#include "shared/wire/messages.h"

namespace holdfast::client {

/// An error with the daemon's typed refusal (its numbers are -1 for local errors).
using Failure = wire::Refusal;
template <class T>
using Answer = std::variant<T, Failure>;

/// What an operator verb gives back: a JSON text, and content where the verb has some.
struct OpAnswer {
  std::string text;
  std::string bytes;
};

struct Options {
  std::chrono::milliseconds timeout{30'000};  // for one call to be answered, reconnects included
  std::string server_key;                     // CURVE, Z85; empty on ipc and loopback
  std::string public_key, secret_key;
  bool watch_daemon = false;  // ask for a sign of life also while nothing else is asked
};

/// Handlers run on the client's own I/O thread: return quickly, do not call blocking methods there.
struct StreamHandler {
  std::function<void(const wire::RequestInfo&)> on_attached;  // at each (re)attachment
  std::function<void(const wire::Event&)> on_event;  // in order, no gap, no repeat (trimmed here)
  std::function<void(const wire::RequestInfo&)> on_fin;
  std::function<void(const Failure&)> on_failure;  // final: e.g. not_found. Not for lost daemons.
};
using StreamId = std::uint64_t;

/// Thread-safe. One I/O thread and one DEALER socket, whatever the number of streams.
class Client {
 public:
  /// Endpoint: "ipc://STATE/run/clients.sock" or "tcp://…". Does not wait for the daemon.
  static Result<std::unique_ptr<Client>> connect(const std::string& endpoint, Options options = {});
  virtual ~Client() = default;

  /// Each call says whose it is. What is another tenant's is answered as what is not there.
  ///
  /// Blocking calls. A lost daemon is waited for until the timeout (kUnreachable then). submit()
  /// makes a request id if there is none and repeats itself after a reconnect: never two requests.
  /// Tenant and key are those of `principal`, whatever `submit` says.
  virtual Answer<wire::Accepted> submit(const Principal& principal, wire::Submit submit) = 0;
  virtual Answer<wire::RequestInfo> status(const Caller& caller, const std::string& request_id) = 0;
  virtual Answer<wire::RequestInfo> cancel(const Caller& caller, const std::string& request_id) = 0;
  /// Hashes of files and reasons of failures are there for operators.
  virtual Answer<std::vector<wire::ModelInfo>> models(const Caller& caller) = 0;
  /// Operator verbs (only on the operator endpoint): JSON in, JSON out. A tenant has a few, for
  /// objects of its own.
  virtual Answer<std::string> op(const Caller& caller, const std::string& verb,
                                 const std::string& args_json) = 0;

  /// The same without blocking; `done` runs on the I/O thread.
  virtual void op_async(const Caller& caller, const std::string& verb, const std::string& args_json,
                        std::function<void(Answer<std::string>)> done) = 0;
  /// The same with content beside the arguments and beside the answer (objects.put, objects.get).
  virtual void op_bytes_async(const Caller& caller, const std::string& verb,
                              const std::string& args_json, std::string bytes,
                              std::function<void(Answer<OpAnswer>)> done) = 0;
  virtual void submit_async(const Principal& principal, wire::Submit submit,
                            std::function<void(Answer<wire::Accepted>)> done) = 0;
  virtual void status_async(const Caller& caller, const std::string& request_id,
                            std::function<void(Answer<wire::RequestInfo>)> done) = 0;
  virtual void cancel_async(const Caller& caller, const std::string& request_id,
                            std::function<void(Answer<wire::RequestInfo>)> done) = 0;
  virtual void models_async(const Caller& caller,
                            std::function<void(Answer<std::vector<wire::ModelInfo>>)> done) = 0;

  /// Since the daemon's loop last answered anything; 0 unless Options::watch_daemon. Any thread.
  virtual std::int64_t silent_ms() const { return 0; }

  /// Streams from `from` (per choice, absent = 0) until FIN; survives lost connections. Credit goes
  /// back as events are handled; hold_stream() stops that (a slow reader), the daemon then waits.
  virtual StreamId open_stream(const Caller& caller, const std::string& request_id,
                               std::vector<std::int64_t> from, StreamHandler handler) = 0;
  virtual void hold_stream(StreamId id, bool hold) = 0;
  /// `for_good`: whoever watched does not come back, so a request that ends with its client
  /// (OnDisconnect::kCancel) ends now, if nobody else watches it, instead of after its grace.
  virtual void close_stream(StreamId id, bool for_good = false) = 0;

  /// Blocking convenience: events on the calling thread, until FIN or a failure.
  virtual Answer<wire::RequestInfo> stream(
      const Caller& caller, const std::string& request_id, std::vector<std::int64_t> from,
      const std::function<void(const wire::Event&)>& on_event) = 0;
};

/// A new request id: 26 characters, time-ordered, unguessable ("req" ids of the daemon look alike).
std::string new_request_id();

}  // namespace holdfast::client
