#pragma once
// The client SDK: submit, stream, attach, cancel, status over ZeroMQ. A stream continues by itself
// over restarts of the daemon and the workers; each token is delivered exactly once, in order.
//
//   auto client = Client::connect("ipc://…/run/clients.sock").value();
//   wire::Submit submit;  submit.model = "demo";  submit.prompts = {{.text = "To be"}};
//   const Principal me = Principal::local();       // the caller, in every call
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

/// The result of an operator verb: a JSON text, and content where the verb has some.
struct OpAnswer {
  std::string text;
  std::string bytes;
};

/// Options of a client.
struct Options {
  std::chrono::milliseconds timeout{30'000};  // for one call, reconnects included
  std::string server_key;                     // CURVE, Z85; empty on ipc and loopback
  std::string public_key, secret_key;
  bool watch_daemon = false;  // probe the daemon also while no call is open
  // Calls fail with kUnreachable once there was no connection for so long; 0: at their timeout.
  std::chrono::milliseconds patience_without_daemon{0};
};

/// Handlers run on the client's own I/O thread: they return quickly and make no blocking calls.
struct StreamHandler {
  std::function<void(const wire::RequestInfo&)> on_attached;  // at each (re)attachment
  std::function<void(const wire::Event&)> on_event;  // in order, no gap, no repeat (trimmed here)
  std::function<void(const wire::RequestInfo&)> on_fin;
  std::function<void(const Failure&)> on_failure;  // final: e.g. not_found. Not for lost daemons.
};
using StreamId = std::uint64_t;

/// A connection to the daemon. Thread-safe. One I/O thread and one DEALER socket for any number of
/// streams.
class Client {
 public:
  /// Connects to "ipc://STATE/run/clients.sock" or "tcp://…". Does not wait for the daemon.
  static Result<std::unique_ptr<Client>> connect(const std::string& endpoint, Options options = {});
  virtual ~Client() = default;

  /// Each call names its principal. An object of another tenant is answered as not found.
  ///
  /// Blocking calls wait for a lost daemon until the timeout (then kUnreachable). submit() makes a
  /// request id if there is none and repeats itself after a reconnect: never two requests. Tenant
  /// and key are those of `principal`, whatever `submit` says.
  virtual Answer<wire::Accepted> submit(const Principal& principal, wire::Submit submit) = 0;
  virtual Answer<wire::RequestInfo> status(const Caller& caller, const std::string& request_id) = 0;
  virtual Answer<wire::RequestInfo> cancel(const Caller& caller, const std::string& request_id) = 0;
  /// Returns the models. Hashes of files and reasons of failures are included for operators alone.
  virtual Answer<std::vector<wire::ModelInfo>> models(const Caller& caller) = 0;
  /// Calls an operator verb (only on the operator endpoint): JSON in, JSON out. Tenants may call a
  /// few verbs, for their own objects.
  virtual Answer<std::string> op(const Caller& caller, const std::string& verb,
                                 const std::string& args_json) = 0;

  /// Does the same without blocking; `done` runs on the I/O thread.
  virtual void op_async(const Caller& caller, const std::string& verb, const std::string& args_json,
                        std::function<void(Answer<std::string>)> done) = 0;
  /// Does the same with content next to the arguments and the answer (objects.put, objects.get).
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

  /// Returns the time since the daemon's loop last answered; 0 unless Options::watch_daemon. Any
  /// thread.
  virtual std::int64_t silent_ms() const { return 0; }

  /// Streams from `from` (per choice, absent = 0) until FIN; survives lost connections. Credit is
  /// returned as events are handled. hold_stream() stops that (for a slow reader), and the daemon
  /// then waits.
  virtual StreamId open_stream(const Caller& caller, const std::string& request_id,
                               std::vector<std::int64_t> from, StreamHandler handler) = 0;
  virtual void hold_stream(StreamId id, bool hold) = 0;
  /// Closes a stream. `for_good`: the reader does not come back, so a request that ends with its
  /// client (OnDisconnect::kCancel) ends now, unless another client is attached, instead of after
  /// its grace.
  virtual void close_stream(StreamId id, bool for_good = false) = 0;

  /// Streams on the calling thread, until FIN or a failure. Blocks.
  virtual Answer<wire::RequestInfo> stream(
      const Caller& caller, const std::string& request_id, std::vector<std::int64_t> from,
      const std::function<void(const wire::Event&)>& on_event) = 0;
};

/// Returns a new request id: 26 characters, time-ordered, unguessable (the daemon's "req" ids look
/// alike).
std::string new_request_id();

}  // namespace holdfast::client
