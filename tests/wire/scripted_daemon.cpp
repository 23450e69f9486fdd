#include "scripted_daemon.h"

#include <cstdlib>
#include <filesystem>

namespace holdfast::wire::testing {

ScriptedDaemon::ScriptedDaemon() {
  char name[] = "/tmp/holdfast-wire-XXXXXX";
  CHECK(mkdtemp(name) != nullptr);
  folder_ = name;
  endpoint_ = "ipc://" + folder_ + "/d.sock";
  start();
}

ScriptedDaemon::~ScriptedDaemon() {
  stop();
  std::filesystem::remove_all(folder_);
}

void ScriptedDaemon::stop() {
  socket_.reset();
}

void ScriptedDaemon::start() {
  SocketOptions options;
  options.message_bytes_max = 64 << 20;
  options.heartbeat_interval_ms = 500;  // as a daemon's: a busy machine must not cut a connection
  options.heartbeat_timeout_ms = 2'000;
  socket_ = std::make_unique<Socket>(Socket::open(context_, SocketKind::kRouter, options).value());
  // The old listener's file is removed asynchronously.
  Result<void> bound = socket_->bind(endpoint_);
  for (int i = 0; i < 100 && !bound.has_value(); ++i) {
    std::vector<WaitItem> nothing;
    wait_readable(nothing, 10);
    bound = socket_->bind(endpoint_);
  }
  ASSERT_TRUE(bound.has_value()) << bound.error().what;
}

void ScriptedDaemon::send(const Message& message) {
  EXPECT_EQ(socket_->send_to(peer_, encode(message)), SendStatus::kSent);
}

std::optional<Message> ScriptedDaemon::next(std::chrono::milliseconds timeout) {
  std::vector<WaitItem> items = {{socket_.get(), -1, false}};
  std::optional<Received> received = socket_->receive();
  if (!received.has_value()) {
    wait_readable(items, static_cast<int>(timeout.count()));
    received = socket_->receive();
  }
  if (!received.has_value()) return std::nullopt;
  peer_ = received->peer;
  Result<Message> message = decode(received->frame);
  EXPECT_TRUE(message.has_value()) << message.error().what;
  if (!message.has_value()) return std::nullopt;
  return std::move(message).value();
}

}  // namespace holdfast::wire::testing
