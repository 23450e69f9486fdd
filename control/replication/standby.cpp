#include "control/replication/standby.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "control/endpoints/router_endpoint.h"
#include "control/replication/follower.h"
#include "control/replication/record_thread.h"
#include "control/store/disk.h"
#include "control/store/lock.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/wire/frame.h"

namespace holdfast::replication {
namespace {

using nlohmann::json;

constexpr std::int64_t kMessageBytesMax = std::int64_t{1} << 30;
constexpr int kWaitMs = 50;
constexpr int kFarewellMs = 20;               // sockets drop what has not left when they close
constexpr std::int64_t kTellUs = 10'000'000;  // the same trouble

/// The process of a standby. One thread.
class Standby {
 public:
  Standby(StandbyOptions options, const Clock& clock, const std::atomic<bool>& stop,
          ProbeAnswer& probe)
      : options_(std::move(options)), clock_(clock), stop_(stop), probe_(probe) {
    if (options_.record != nullptr) {
      calls_.emplace(*options_.record, [this] { wake_.notify(); });
    }
  }

  Result<StandbyEnd> run() {
    HOLDFAST_TRY(const store::StateLock lock,
                 store::StateLock::acquire(options_.state_dir, "daemon"));
    FollowerOptions follower;
    follower.state_dir = options_.state_dir;
    follower.url = options_.url;
    follower.primary = options_.primary;
    follower.term = options_.term;
    follower.silence_us = options_.silence_us;
    if (calls_) follower.record = &*calls_;
    follower_.emplace(
        std::move(follower),
        [this](const wire::Message& message) { (void)socket_->send(wire::encode(message)); },
        clock_.monotonic_us());
    HOLDFAST_CHECKED(open_operator());
    HOLDFAST_CHECKED(connect());
    while (!stop_.load() && !follower_->end().promoted) HOLDFAST_CHECKED(loop_once());
    store::real_disk().pause_ms(kFarewellMs);
    return follower_->end();
  }

 private:
  Result<void> open_operator() {
    daemon::RouterEndpoint::Options options;
    options.role = daemon::Role::kOperator;
    options.endpoint = "ipc://" + options_.state_dir + "/run/standby.sock";
    options.outbox_max = 64;
    HOLDFAST_TRY(daemon::RouterEndpoint open,
                 daemon::RouterEndpoint::open(context_, std::move(options)));
    operator_.emplace(std::move(open));
    return {};
  }

  Result<void> connect() {
    socket_.reset();
    wire::SocketOptions options;
    options.heartbeat_interval_ms = 0;  // each SHIP is a sign of life
    options.send_high_water = options.receive_high_water = 0;
    options.message_bytes_max = kMessageBytesMax;
    options.server_key = options_.key.server_key;
    options.public_key = options_.key.public_key;
    options.secret_key = options_.key.secret_key;
    HOLDFAST_TRY(wire::Socket socket,
                 wire::Socket::open(context_, wire::SocketKind::kDealer, options));
    HOLDFAST_CHECKED(socket.start_monitor(context_));
    connected_to_ = follower_->primary();
    HOLDFAST_CHECKED(socket.connect(connected_to_));
    socket_.emplace(std::move(socket));
    log::info("standby", {{"primary", connected_to_}, {"term", follower_->term()}});
    return {};
  }

  Result<void> loop_once() {
    std::vector<wire::WaitItem> items = {
        {&*socket_, -1, false}, {&operator_->socket(), -1, false}, {nullptr, wake_.fd(), false}};
    if (probe_.fd() >= 0) items.push_back({nullptr, probe_.fd(), false});
    wire::wait_readable(items, kWaitMs);
    wake_.clear();
    probe_.answer();
    const std::int64_t now_us = clock_.monotonic_us();
    watch_link(now_us);
    while (auto received = socket_->receive()) HOLDFAST_CHECKED(hear(received->frame, now_us));
    if (follower_->end().promoted) return {};
    serve_operator();
    HOLDFAST_CHECKED(follower_->tick(clock_.monotonic_us()));
    tell_trouble();
    return follower_->primary() == connected_to_ ? Result<void>() : connect();
  }

  void watch_link(std::int64_t now_us) {
    while (const auto event = socket_->next_link_event()) {
      if (*event == wire::LinkEvent::kConnected) follower_->connected(now_us);
      if (*event != wire::LinkEvent::kRefused) continue;
      if (now_us - told_us_ < kTellUs) continue;
      told_us_ = now_us;
      log::warn("the primary refuses this key",
                {{"primary", connected_to_}, {"key", options_.key.name}});
    }
  }

  Result<void> hear(const std::string& frame, std::int64_t now_us) {
    auto message = wire::decode(frame);
    if (!message) return {};
    if (std::holds_alternative<wire::Ping>(*message)) {
      (void)socket_->send(wire::encode(wire::Pong{}));
      return {};
    }
    const auto* ship = std::get_if<wire::Ship>(&*message);
    return ship == nullptr ? Result<void>() : follower_->take(*ship, now_us);
  }

  void tell_trouble() {
    const std::int64_t now_us = clock_.monotonic_us();
    if (follower_->record_trouble().empty() || now_us - told_us_ <= kTellUs) return;
    told_us_ = now_us;
    log::warn("the record cannot be reached", {{"why", follower_->record_trouble()}});
  }

  void serve_operator() {
    operator_->watch_links(clock_.monotonic_us());
    operator_->probe(clock_.monotonic_us());
    while (auto in = operator_->receive(last_peer_)) answer(*in);
    (void)operator_->flush();
    (void)operator_->take_gone();
  }

  void answer(const daemon::Incoming& in) {
    if (const auto* ping = std::get_if<wire::Ping>(&in.message)) {
      (void)operator_->send(in.peer, wire::encode(wire::Pong{ping->tag, 0}));
    }
    const auto* op = std::get_if<wire::Op>(&in.message);
    if (op == nullptr) return;
    wire::OpResult result;
    result.tag = op->tag;
    if (op->verb == "ha.status") {
      result.ok = true;
      result.result = status().dump();
    } else if (op->verb == "ha.promote") {
      promote_by_hand(*op, result);
    } else {
      result.refusal.code = Errc::kConflict;
      result.refusal.message = op->verb + ": this machine is the standby of " +
                               follower_->primary() +
                               "; ask that one, or `holdfast ha status` here";
    }
    (void)operator_->send(in.peer, wire::encode(result));
  }

  json status() const {
    const std::int64_t now_us = clock_.monotonic_us();
    const StandbyNote& note = follower_->note();
    const char* state = note.in_step ? "in_step" : note.complete ? "complete" : "copying";
    return {{"role", "standby"},
            {"url", options_.url},
            {"primary", note.primary},
            {"term", follower_->term()},
            {"state", follower_->is_silent(now_us) && !note.complete ? "waiting" : state},
            {"silent_ms", follower_->silent_us(now_us) / 1000},
            {"record", calls_.has_value()},
            {"messages", follower_->messages()}};
  }

  void promote_by_hand(const wire::Op& op, wire::OpResult& result) {
    const auto args = try_parse_json<json>(op.args);
    const bool force = args.is_object() && args.value("force", false);
    const auto done = follower_->promote_by_hand(force, clock_.monotonic_us());
    if (!done) {
      result.refusal.code = done.error().code;
      result.refusal.message = "ha.promote: " + done.error().what;
      return;
    }
    result.ok = true;
    result.result = json{{"term", follower_->end().term}, {"url", options_.url}}.dump();
  }

  StandbyOptions options_;
  const Clock& clock_;
  const std::atomic<bool>& stop_;
  ProbeAnswer& probe_;
  wire::Context context_;
  wire::WakeUp wake_;
  std::optional<daemon::RouterEndpoint> operator_;
  std::optional<wire::Socket> socket_;
  std::optional<RecordThread> calls_;
  std::optional<Follower> follower_;
  std::string connected_to_;
  core::PeerId last_peer_ = 0;
  std::int64_t told_us_ = -(1LL << 40);
};

}  // namespace

Result<StandbyEnd> run_standby(StandbyOptions options, const Clock& clock,
                               const std::atomic<bool>& stop, ProbeAnswer& probe) {
  Standby standby(std::move(options), clock, stop, probe);
  return standby.run();
}

}  // namespace holdfast::replication
