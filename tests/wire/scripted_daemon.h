#pragma once
// A daemon that says only what the test tells it to: a ROUTER on an ipc endpoint of its own.

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "shared/wire/frame.h"
#include "shared/wire/socket.h"

namespace holdfast::wire::testing {

class ScriptedDaemon {
 public:
  ScriptedDaemon();  // up
  ~ScriptedDaemon();
  const std::string& endpoint() const { return endpoint_; }
  void stop();   // closes the socket: every connection ends
  void start();  // binds again

  void send(const Message& message);  // to the peer that sent last

  /// Returns the next message of type T within 20 s; PINGs are answered, STATS skipped.
  template <class T>
  T expect() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      std::optional<Message> message = next(std::chrono::milliseconds(100));
      if (!message.has_value() || std::holds_alternative<WorkerStats>(*message)) continue;
      if (std::holds_alternative<Ping>(*message)) {
        send(Pong{std::get<Ping>(*message).tag});
        continue;
      }
      if (auto* match = std::get_if<T>(&*message)) return std::move(*match);
      ADD_FAILURE() << "got " << message_name(*message) << ", expected " << message_name(T{});
      return {};
    }
    ADD_FAILURE() << "no " << message_name(T{}) << " came";
    return {};
  }
  /// Does the same, but steps over all other messages.
  template <class T>
  T find() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      std::optional<Message> message = next(std::chrono::milliseconds(100));
      if (!message.has_value()) continue;
      if (auto* match = std::get_if<T>(&*message)) return std::move(*match);
    }
    ADD_FAILURE() << "no " << message_name(T{}) << " came";
    return {};
  }
  /// Returns nullopt if nothing came in time.
  std::optional<Message> next(std::chrono::milliseconds timeout);

 private:
  std::string folder_;
  std::string endpoint_;
  Context context_;
  std::unique_ptr<Socket> socket_;
  std::string peer_;
};

}  // namespace holdfast::wire::testing
