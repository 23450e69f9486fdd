#include "control/replication/standby.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "control/endpoints/router_endpoint.h"
#include "control/replication/copy_receiver.h"
#include "control/replication/record_calls.h"
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
constexpr int kFarewellMs = 20;                   // sockets drop what has not left when they close
constexpr std::int64_t kHelloAgainUs = 500'000;   // after a gap in what came
constexpr std::int64_t kHelloLostUs = 1'500'000;  // while nothing comes at all
constexpr std::int64_t kTakeAgainUs = 250'000;
constexpr std::int64_t kTellUs = 10'000'000;  // the same trouble

/// The process of a standby. One thread.
class Standby {
 public:
  Standby(StandbyOptions options, const Clock& clock, const std::atomic<bool>& stop,
          ProbeAnswer& probe)
      : options_(std::move(options)),
        clock_(clock),
        stop_(stop),
        probe_(probe),
        copy_(options_.state_dir) {
    if (options_.record != nullptr) {
      calls_.emplace(*options_.record, [this] { wake_.notify(); });
    }
  }

  Result<StandbyEnd> run() {
    HOLDFAST_TRY(const store::StateLock lock,
                 store::StateLock::acquire(options_.state_dir, "daemon"));
    options_.term = std::max(options_.term, copy_.note().term);
    const std::string primary = options_.primary.empty() ? copy_.note().primary : options_.primary;
    copy_.follow(primary, options_.term);
    HOLDFAST_CHECKED(open_operator());
    HOLDFAST_CHECKED(connect());
    last_word_us_ = clock_.monotonic_us();
    while (!stop_.load() && !end_.promoted) HOLDFAST_CHECKED(loop_once());
    store::real_disk().pause_ms(kFarewellMs);
    return end_;
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
    HOLDFAST_CHECKED(socket.connect(copy_.note().primary));
    socket_.emplace(std::move(socket));
    log::info("standby", {{"primary", copy_.note().primary}, {"term", options_.term}});
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
    if (hello_due_us_ <= now_us) say_hello(now_us);
    serve_operator();
    return check_record(clock_.monotonic_us());
  }

  void watch_link(std::int64_t now_us) {
    while (const auto event = socket_->next_link_event()) {
      if (*event == wire::LinkEvent::kConnected) hello_due_us_ = now_us;
      if (*event != wire::LinkEvent::kRefused) continue;
      if (now_us - told_us_ < kTellUs) continue;
      told_us_ = now_us;
      log::warn("the primary refuses this key",
                {{"primary", copy_.note().primary}, {"key", options_.key.name}});
    }
  }

  void say_hello(std::int64_t now_us) {
    hello_us_ = now_us;
    hello_due_us_ = now_us + kHelloLostUs;
    (void)socket_->send(wire::encode(wire::StandbyHello{options_.url, options_.term}));
  }

  Result<void> hear(const std::string& frame, std::int64_t now_us) {
    auto message = wire::decode(frame);
    if (!message) return {};
    if (std::holds_alternative<wire::Ping>(*message)) {
      (void)socket_->send(wire::encode(wire::Pong{}));
      return {};
    }
    auto* ship = std::get_if<wire::Ship>(&*message);
    // An older primary that does not know yet that it is none.
    if (ship == nullptr || ship->term < options_.term) return {};
    options_.term = ship->term;
    last_word_us_ = now_us;
    // A hello to a primary that only is slow would have it begin the copy anew.
    hello_due_us_ = now_us + kHelloLostUs;
    return take(*ship);
  }

  Result<void> take(const wire::Ship& ship) {
    HOLDFAST_TRY(const CopyReceiver::Taken taken, copy_.take(ship));
    if (taken == CopyReceiver::Taken::kGap) {
      hello_due_us_ = std::min(hello_due_us_, hello_us_ + kHelloAgainUs);
      return {};
    }
    if (taken == CopyReceiver::Taken::kTakeOver && calls_) {
      requested_ = ship.number;  // confirmed once the record says so
      return {};
    }
    (void)socket_->send(wire::encode(wire::Shipped{ship.term, ship.number}));
    if (taken == CopyReceiver::Taken::kTakeOver) return promote(ship.term + 1);
    return {};
  }

  Result<void> promote(std::uint64_t term) {
    HOLDFAST_CHECKED(copy_.promote(term));
    log::warn("this machine is the primary now",
              {{"term", term}, {"was", copy_.note().primary}, {"url", options_.url}});
    end_ = {true, term};
    return {};
  }

  bool is_silent(std::int64_t now_us) const { return now_us - last_word_us_ > options_.silence_us; }

  /// Takes over when the primary is silent, and follows the record to another primary.
  Result<void> check_record(std::int64_t now_us) {
    if (!calls_) return {};
    if (const auto answer = calls_->take()) {
      calls_us_ = clock_.monotonic_us();
      if (answer->outcome == RecordAnswer::Outcome::kUnreachable) return tell(answer->why);
      const Record& record = answer->record;
      if (record.primary == options_.url && record.term > options_.term) {
        if (requested_ != 0) {
          (void)socket_->send(wire::encode(wire::Shipped{options_.term, requested_}));
        }
        return promote(record.term);
      }
      if (record.primary != copy_.note().primary && !record.primary.empty()) return follow(record);
    }
    if (calls_->under_way() || (!is_silent(now_us) && requested_ == 0)) return {};
    if (now_us - calls_us_ < (requested_ != 0 ? 0 : kTakeAgainUs)) return {};
    start_call();
    return {};
  }

  void start_call() {
    // Only a whole copy can be what the record calls in step.
    if (copy_.note().complete) {
      calls_->start([url = options_.url, term = options_.term](RecordStore& store) {
        return take_over(store, url, term);
      });
      return;
    }
    calls_->start([](RecordStore& store) {
      const auto now = store.read();
      if (!now) return RecordAnswer{RecordAnswer::Outcome::kUnreachable, {}, now.error().what};
      return RecordAnswer{RecordAnswer::Outcome::kOther, now->record, {}};
    });
  }

  Result<void> follow(const Record& record) {
    options_.term = std::max(options_.term, record.term);
    requested_ = 0;
    copy_.follow(record.primary, options_.term);
    last_word_us_ = clock_.monotonic_us();
    return connect();
  }

  Result<void> tell(const std::string& why) {
    const std::int64_t now_us = clock_.monotonic_us();
    if (now_us - told_us_ > kTellUs) {
      told_us_ = now_us;
      log::warn("the record cannot be reached", {{"why", why}});
    }
    return {};
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
                               copy_.note().primary +
                               "; ask that one, or `holdfast ha status` here";
    }
    (void)operator_->send(in.peer, wire::encode(result));
  }

  json status() const {
    const std::int64_t silent_us = clock_.monotonic_us() - last_word_us_;
    const char* state = copy_.note().in_step    ? "in_step"
                        : copy_.note().complete ? "complete"
                                                : "copying";
    return {
        {"role", "standby"},
        {"url", options_.url},
        {"primary", copy_.note().primary},
        {"term", options_.term},
        {"state", is_silent(clock_.monotonic_us()) && !copy_.note().complete ? "waiting" : state},
        {"silent_ms", silent_us / 1000},
        {"record", calls_.has_value()},
        {"messages", copy_.number()}};
  }

  void promote_by_hand(const wire::Op& op, wire::OpResult& result) {
    const auto args = try_parse_json<json>(op.args);
    const bool force = args.is_object() && args.value("force", false);
    const auto refuse = [&](Errc code, const std::string& why) {
      result.refusal.code = code;
      result.refusal.message = "ha.promote: " + why;
    };
    if (!copy_.note().complete) {
      return refuse(Errc::kConflict, "this standby has no whole copy of the database yet");
    }
    if (calls_) {
      return refuse(Errc::kConflict,
                    "the record decides who is the primary; it takes over by itself, or ask the "
                    "primary with `holdfast ha switch`");
    }
    const bool speaks = !is_silent(clock_.monotonic_us());
    if (!force && speaks) {
      return refuse(Errc::kConflict, "the primary " + copy_.note().primary +
                                         " lives; ask it with `holdfast ha switch`, or repeat "
                                         "with --force if it is cut off from its clients");
    }
    if (!force && !copy_.note().in_step) {
      return refuse(Errc::kConflict,
                    "the primary went on without this standby, so that accepted requests may be "
                    "missing here; repeat with --force to lose them");
    }
    // The old primary ends when it hears of the later term.
    (void)socket_->send(wire::encode(wire::StandbyHello{options_.url, options_.term + 1}));
    if (const auto done = promote(options_.term + 1); !done) {
      return refuse(done.error().code, done.error().what);
    }
    result.ok = true;
    result.result = json{{"term", end_.term}, {"url", options_.url}}.dump();
  }

  StandbyOptions options_;
  const Clock& clock_;
  const std::atomic<bool>& stop_;
  ProbeAnswer& probe_;
  wire::Context context_;
  wire::WakeUp wake_;
  std::optional<daemon::RouterEndpoint> operator_;
  std::optional<wire::Socket> socket_;
  std::optional<RecordCalls> calls_;
  CopyReceiver copy_;
  StandbyEnd end_;
  core::PeerId last_peer_ = 0;
  std::uint64_t requested_ = 0;  // the message that asked to take over
  std::int64_t last_word_us_ = 0;
  std::int64_t hello_due_us_ = INT64_MAX;
  std::int64_t hello_us_ = 0;  // the last one
  std::int64_t calls_us_ = -(1LL << 40);
  std::int64_t told_us_ = -(1LL << 40);
};

}  // namespace

Result<StandbyEnd> run_standby(StandbyOptions options, const Clock& clock,
                               const std::atomic<bool>& stop, ProbeAnswer& probe) {
  Standby standby(std::move(options), clock, stop, probe);
  return standby.run();
}

}  // namespace holdfast::replication
