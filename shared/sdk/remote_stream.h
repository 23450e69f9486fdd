#pragma once
// A stream of a server elsewhere: GET /v1/requests/ID/stream?form=tokens, on a thread of its own,
// which connects again and goes on where it was.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shared/client/client.h"
#include "shared/remote/address.h"
#include "shared/remote/http.h"
#include "shared/remote/sse.h"

namespace holdfast::sdk {

/// One stream, from its first token on. The handlers run on its thread.
class RemoteStream {
 public:
  RemoteStream(const remote::Address& address, std::string id, client::StreamHandler handler);
  /// Waits for the thread: at most about a second after close().
  ~RemoteStream();
  RemoteStream(const RemoteStream&) = delete;
  RemoteStream& operator=(const RemoteStream&) = delete;

  /// Makes the connection wait, or go on. From any thread.
  void hold(bool hold);
  /// Ends the stream. Returns at once; the thread ends soon.
  void close();
  /// True once the thread has nothing more to do.
  bool over() const { return over_; }

 private:
  void run();
  void connect();
  std::string path() const;
  bool on_event(const remote::SseEvent& event);
  bool on_tokens(const nlohmann::json& data);
  void on_state(const nlohmann::json& state);
  void on_reply(const remote::HttpReply& reply);
  void end_with(const client::Failure& failure);
  void wait_for_server(client::Failure failure);

  const remote::Address address_;
  const std::string id_;
  const client::StreamHandler handler_;
  std::vector<std::int64_t> next_;  // first token that is not there yet, by choice
  wire::RequestInfo info_;
  std::chrono::steady_clock::time_point last_answer_;
  std::chrono::milliseconds pause_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> over_ = false;
  std::thread thread_;  // last: it uses the members before it
};

}  // namespace holdfast::sdk
