#include "shared/client/io_loop.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "shared/base/clock.h"
#include "shared/base/log.h"
#include "shared/wire/frame.h"

namespace holdfast::client {
namespace {

constexpr int kTickMs = 100;
constexpr int kRetryMs = 5;
constexpr std::int64_t kDeadlineStepUs = 10'000;
constexpr std::int64_t kPingAfterUs = 1'000'000;
constexpr std::int64_t kWatchEveryUs = 500'000;
// Longer than any commit: a daemon that is silent for so long may have lost our messages.
constexpr std::int64_t kSilentAfterUs = 5'000'000;
constexpr int kBrokenMax = 5;
constexpr std::int64_t kBrokenWithinUs = 1'000'000;
// Every daemon takes frames of this size. The second is the limit of one that names none.
constexpr std::size_t kFrameBytesSure = 64 * 1024;
constexpr std::int64_t kFrameBytesUnsaid = 4 << 20;
constexpr std::int64_t kWindow = 1024;
constexpr std::int64_t kCreditStep = kWindow / 4;

std::int64_t now_us() {
  return system_clock().monotonic_us();
}

template <class T>
concept HasTag = requires(T m) {
  m.tag;
};

void set_tag(wire::Message& message, std::uint64_t tag) {
  std::visit(
      [&](auto& m) {
        if constexpr (HasTag<std::remove_reference_t<decltype(m)>>) m.tag = tag;
      },
      message);
}

/// Returns false for `shutdown`: repeated, it would end the daemon that was started after it.
bool is_repeatable(const wire::Message& message) {
  const auto* op = std::get_if<wire::Op>(&message);
  return op == nullptr || op->verb != "shutdown";
}

}  // namespace

Failure make_failure(Errc code, std::string message) {
  Failure failure;
  failure.code = code;
  failure.message = std::move(message);
  return failure;
}

IoLoop::IoLoop(std::string endpoint, const Options& options)
    : endpoint_(std::move(endpoint)), options_(options) {}

Result<std::unique_ptr<IoLoop>> IoLoop::start(const std::string& endpoint, const Options& options) {
  std::unique_ptr<IoLoop> loop(new IoLoop(endpoint, options));
  HOLDFAST_CHECKED(loop->open());
  loop->answered_us_ = now_us();
  loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
  return loop;
}

Result<void> IoLoop::open() {
  wire::SocketOptions options;
  // A client is in no hurry to suspect its daemon: a closed connection shows a dead one at once;
  // heartbeats find a stopped process or a cut cable.
  options.heartbeat_interval_ms = 500;
  options.heartbeat_timeout_ms = 2000;
  options.message_bytes_max = 64 << 20;
  // A full queue would hold back the daemon's heartbeats too, and a busy client would take its
  // daemon for dead. What can arrive is bounded by what was requested: windows of streams, answers.
  options.receive_high_water = 0;  // no bound
  options.server_key = options_.server_key;
  options.public_key = options_.public_key;
  options.secret_key = options_.secret_key;
  HOLDFAST_TRY(auto socket, wire::Socket::open(context_, wire::SocketKind::kDealer, options));
  socket_ = std::make_unique<wire::Socket>(std::move(socket));
  HOLDFAST_CHECKED(socket_->start_monitor(context_));
  return socket_->connect(endpoint_);
}

IoLoop::~IoLoop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify();
  thread_.join();
}

std::uint64_t IoLoop::new_tag() {
  const std::lock_guard lock(mutex_);
  return next_tag_++;
}

void IoLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify();
}

void IoLoop::call(wire::Message message, Done done) {
  const std::uint64_t tag = new_tag();
  set_tag(message, tag);
  const std::int64_t deadline = now_us() + options_.timeout.count() * 1000;
  const bool repeatable = is_repeatable(message);
  post([this, tag, deadline, repeatable, f = wire::encode(message), d = std::move(done)]() mutable {
    calls_.emplace(tag, Call{std::move(f), repeatable, std::move(d), deadline, false});
    unsent_calls_.insert(tag);
  });
}

StreamId IoLoop::open_stream(std::string tenant, std::string request_id,
                             std::vector<std::int64_t> from, StreamHandler handler) {
  const StreamId id = new_tag();
  post([this, id, t = std::move(tenant), r = std::move(request_id), f = std::move(from),
        h = std::move(handler)]() mutable {
    Stream stream;
    stream.tenant = std::move(t);
    stream.id = stream.tag = id;
    stream.request_id = std::move(r);
    stream.credited = f;
    stream.cursor = Cursor(std::move(f));
    stream.handler = std::move(h);
    streams_.emplace(id, std::move(stream));
    stream_tags_.emplace(id, id);
    streams_due_.insert(id);
  });
  return id;
}

void IoLoop::hold_stream(StreamId id, bool hold) {
  post([this, id, hold] {
    const auto it = streams_.find(id);
    if (it == streams_.end()) return;
    it->second.held = hold;
    give_credit(it->second);
  });
}

void IoLoop::close_stream(StreamId id, bool for_good) {
  post([this, id, for_good] {
    const auto it = streams_.find(id);
    if (it == streams_.end()) return;
    if (it->second.sent) send(wire::Detach{it->second.tag, it->second.request_id, for_good});
    stream_tags_.erase(it->second.tag);
    streams_.erase(it);
  });
}

void IoLoop::run() {
  last_received_us_ = lost_us_ = now_us();
  std::vector<wire::WaitItem> items = {{socket_.get(), -1, false}, {nullptr, wake_.fd(), false}};
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    run_tasks();
    drain_link_events();
    drain_messages();
    on_tick();
    const bool retry = connected_ && (!unsent_calls_.empty() || !streams_due_.empty());
    wire::wait_readable(items, retry ? kRetryMs : kTickMs);
    wake_.clear();
  }
  run_tasks();
  for (auto& [tag, call] : std::exchange(calls_, {})) {
    call.done(make_failure(Errc::kCancelled, "the client was closed before the answer came"));
  }
}

void IoLoop::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

void IoLoop::drain_link_events() {
  while (const auto event = socket_->next_link_event()) {
    if (*event == wire::LinkEvent::kRefused) {
      refuse_key("it was revoked or is over, or is of another server");
      continue;
    }
    if (*event == wire::LinkEvent::kBroken) {
      on_broken();
      continue;
    }
    on_lost();  // a new connection knows nothing of the old one's messages
    connected_ = *event == wire::LinkEvent::kConnected;
    if (connected_) {
      was_connected_ = true;
      key_refused_.clear();
      broken_ = 0;
    }
    if (!connected_) lost_us_ = now_us();
    last_received_us_ = pinged_us_ = now_us();
  }
}

/// Counts handshakes that the other side ended: a server with another key says nothing, and closes
/// each connection at once.
void IoLoop::on_broken() {
  const std::int64_t now = now_us();
  broken_ = now - broken_us_ < kBrokenWithinUs ? broken_ + 1 : 1;
  broken_us_ = now;
  if (was_connected_ || broken_ < kBrokenMax) return;
  refuse_key("it closes every connection in the handshake, as a server with another key does");
}

/// Ends all calls and streams, and those to come, until a connection is made after all: the server
/// will not take this key at the next try either.
void IoLoop::refuse_key(std::string why) {
  key_refused_ = std::move(why);
  fail_all(key_failure());
}

Failure IoLoop::key_failure() const {
  return make_failure(Errc::kUnauthorized,
                      endpoint_ + ": the server does not accept this key: " + key_refused_ +
                          "; `holdfast keys peers` shows the keys there");
}

void IoLoop::fail_all(const Failure& failure) {
  unsent_calls_.clear();
  for (auto& [tag, call] : std::exchange(calls_, {})) call.done(failure);
  std::vector<StreamId> open;
  for (const auto& [id, stream] : streams_) open.push_back(id);
  for (const StreamId id : open) fail_stream(id, failure);
}

void IoLoop::on_lost() {
  silent_ = false;
  frame_bytes_max_ = 0;
  frame_limit_requested_ = false;
  for (auto& [id, stream] : streams_) {
    stream.sent = false;
    streams_due_.insert(id);
  }
  for (auto it = calls_.begin(); it != calls_.end();) {
    Call& call = it->second;
    if (!call.sent || call.repeatable) {
      call.sent = false;
      unsent_calls_.insert(it->first);
      ++it;
      continue;
    }
    const Done done = std::move(call.done);
    it = calls_.erase(it);
    done(make_failure(Errc::kUnreachable, endpoint_ + ": the daemon went away before it answered"));
  }
}

void IoLoop::drain_messages() {
  // Bounded, so that a flood cannot starve deadlines and tasks.
  for (int i = 0; i < 1000; ++i) {
    const std::optional<wire::Received> received = socket_->receive();
    if (!received.has_value()) return;
    Result<wire::Message> message = wire::decode(received->frame);
    last_received_us_ = now_us();
    answered_us_ = last_received_us_;
    if (std::exchange(silent_, false)) on_lost();
    if (message.has_value()) {
      on_message(std::move(message).value());
    } else {
      log::warn("client: frame refused", {{"reason", message.error().what}});
    }
  }
  wake_.notify();
}

void IoLoop::on_tick() {
  const std::int64_t now = now_us();
  socket_->seek(connected_, now);
  if (!key_refused_.empty()) fail_all(key_failure());
  if (connected_) {
    send_pending();
    check_silence(now);
  }
  if (now - deadlines_looked_at_us_ >= kDeadlineStepUs) expire_calls(now);
}

bool IoLoop::gave_up_daemon(std::int64_t now) const {
  const std::int64_t patience_us = options_.patience_without_daemon.count() * 1000;
  return patience_us > 0 && !connected_ && now - lost_us_ >= patience_us;
}

void IoLoop::expire_calls(std::int64_t now) {
  deadlines_looked_at_us_ = now;
  const bool gave_up = gave_up_daemon(now);
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second.deadline_us > now && !gave_up) {
      ++it;
      continue;
    }
    const Done done = std::move(it->second.done);
    unsent_calls_.erase(it->first);
    it = calls_.erase(it);
    const bool reachable = connected_ && !silent_;
    done(make_failure(
        reachable ? Errc::kTimeout : Errc::kUnreachable,
        endpoint_ + (reachable ? ": no answer in time; ask for the status"
                               : ": no daemon answers; is `holdfast serve` running?")));
  }
}

/// Returns false for a frame that must wait until the daemon has named its limit: one that is too
/// long ends the connection, and all calls and streams with it.
bool IoLoop::may_send(const Call& call) {
  if (call.frame.size() <= kFrameBytesSure) return true;
  if (frame_bytes_max_ == 0 && !frame_limit_requested_) {
    frame_limit_requested_ = send(wire::Ping{static_cast<std::uint64_t>(now_us())});
  }
  return frame_bytes_max_ > 0;
}

void IoLoop::refuse_large(std::uint64_t tag) {
  const auto it = calls_.find(tag);
  const auto bytes = static_cast<std::int64_t>(it->second.frame.size());
  Failure failure = make_failure(
      Errc::kInvalidRequest,
      "the message has " + std::to_string(bytes) + " bytes, the daemon takes at most " +
          std::to_string(frame_bytes_max_) + " (link.client_message_bytes); it was not sent");
  failure.needed = bytes;
  failure.largest = frame_bytes_max_;
  const Done done = std::move(it->second.done);
  calls_.erase(it);
  done(std::move(failure));
}

void IoLoop::send_calls() {
  for (auto it = unsent_calls_.begin(); it != unsent_calls_.end();) {
    const std::uint64_t tag = *it;
    Call& call = calls_.at(tag);
    if (!may_send(call)) {
      ++it;
      continue;
    }
    const bool large = call.frame.size() > kFrameBytesSure &&
                       call.frame.size() > static_cast<std::size_t>(frame_bytes_max_);
    if (!large && socket_->send(call.frame) != wire::SendStatus::kSent) return;
    call.sent = true;
    it = unsent_calls_.erase(it);
    if (large) refuse_large(tag);
  }
}

void IoLoop::send_pending() {
  send_calls();
  for (const StreamId id : std::exchange(streams_due_, {})) {
    const auto due = streams_.find(id);
    if (due == streams_.end()) continue;  // closed meanwhile
    Stream& stream = due->second;
    if (!stream.sent) {
      wire::Attach attach;
      attach.tag = stream.tag;
      attach.request_id = stream.request_id;
      attach.tenant = stream.tenant;
      attach.from = stream.credited = stream.cursor.next();
      attach.window = kWindow;
      stream.sent = send(attach);
      if (!stream.sent) streams_due_.insert(id);
    } else {
      give_credit(stream);
    }
  }
}

/// Checks for the daemon's silence. libzmq answers heartbeats even when the daemon's own thread
/// hangs, so only an answer counts.
void IoLoop::check_silence(std::int64_t now) {
  if (options_.watch_daemon && now - answered_us_ > kWatchEveryUs &&
      now - pinged_us_ > kWatchEveryUs) {
    pinged_us_ = now;
    send(wire::Ping{static_cast<std::uint64_t>(now)});
  }
  if (calls_.empty() && streams_.empty()) {
    last_received_us_ = now;
    return;
  }
  if (now - last_received_us_ > kSilentAfterUs) silent_ = true;
  if (now - last_received_us_ > kPingAfterUs && now - pinged_us_ > kPingAfterUs) {
    pinged_us_ = now;
    send(wire::Ping{static_cast<std::uint64_t>(now)});
  }
}

std::int64_t IoLoop::silent_ms() const {
  if (!options_.watch_daemon) return 0;
  return std::max<std::int64_t>(now_us() - answered_us_, 0) / 1000;
}

bool IoLoop::send(const wire::Message& message) {
  return connected_ && socket_->send(wire::encode(message)) == wire::SendStatus::kSent;
}

namespace {

/// Returns the tag of the request that a message answers; 0 if it answers none.
std::uint64_t tag_of(const wire::Message& message) {
  return std::visit(
      [](const auto& m) -> std::uint64_t {
        if constexpr (HasTag<std::remove_cvref_t<decltype(m)>>) return m.tag;
        return 0;
      },
      message);
}

}  // namespace

void IoLoop::on_message(wire::Message message) {
  if (auto* event = std::get_if<wire::Event>(&message)) return on_event(std::move(*event));
  if (const auto* fin = std::get_if<wire::Fin>(&message)) return on_fin(*fin);
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    send(wire::Pong{ping->tag});
    return;
  }
  if (const auto* pong = std::get_if<wire::Pong>(&message)) {
    frame_bytes_max_ = pong->message_bytes > 0 ? pong->message_bytes : kFrameBytesUnsaid;
    return;
  }
  if (const auto* attached = std::get_if<wire::Attached>(&message)) {
    return on_attached(*attached);
  }
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    if (const Stream* stream = stream_of_tag(refused->tag)) {
      return fail_stream(stream->id, refused->refusal);
    }
  }
  answer(tag_of(message), std::move(message));
}

void IoLoop::on_attached(const wire::Attached& attached) {
  const Stream* stream = stream_of_tag(attached.tag);
  if (stream != nullptr && stream->handler.on_attached) {
    stream->handler.on_attached(attached.info);
  }
}

void IoLoop::answer(std::uint64_t tag, wire::Message message) {
  const auto it = calls_.find(tag);
  if (it == calls_.end()) return;
  const Done done = std::move(it->second.done);
  unsent_calls_.erase(tag);
  calls_.erase(it);
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    done(refused->refusal);
  } else {
    done(std::move(message));
  }
}

IoLoop::Stream* IoLoop::stream_of_tag(std::uint64_t tag) {
  const auto it = stream_tags_.find(tag);
  if (it == stream_tags_.end()) return nullptr;
  const auto stream = streams_.find(it->second);
  return stream == streams_.end() ? nullptr : &stream->second;
}

void IoLoop::on_event(wire::Event event) {
  Stream* stream = stream_of_tag(event.tag);
  if (stream == nullptr) return;
  switch (stream->cursor.take(event)) {
    case Cursor::Verdict::kRepeat:
      return;
    case Cursor::Verdict::kGap:
      return attach_again(*stream);
    case Cursor::Verdict::kBroken:
      return fail_stream(
          stream->id, make_failure(Errc::kInternal, "stream " + stream->request_id +
                                                        ": the daemon sent an inconsistent event"));
    case Cursor::Verdict::kDeliver:
      if (stream->handler.on_event) stream->handler.on_event(event);
      give_credit(*stream);
      return;
  }
}

void IoLoop::on_fin(const wire::Fin& fin) {
  Stream* stream = stream_of_tag(fin.tag);
  if (stream == nullptr) return;
  if (!stream->cursor.is_complete(fin.info)) return attach_again(*stream);
  const StreamHandler handler = std::move(stream->handler);
  stream_tags_.erase(stream->tag);
  streams_.erase(stream->id);
  if (handler.on_fin) handler.on_fin(fin.info);
}

/// Attaches again under a new tag: late events of the old attachment would look like gaps.
void IoLoop::attach_again(Stream& stream) {
  send(wire::Detach{stream.tag, stream.request_id});
  stream_tags_.erase(stream.tag);
  stream.tag = new_tag();
  stream.sent = false;
  stream_tags_.emplace(stream.tag, stream.id);
  streams_due_.insert(stream.id);
  wake_.notify();
}

void IoLoop::give_credit(Stream& stream) {
  if (stream.held || !stream.sent) return;
  const std::vector<std::int64_t>& next = stream.cursor.next();
  stream.credited.resize(std::max(stream.credited.size(), next.size()), 0);
  for (std::size_t choice = 0; choice < next.size(); ++choice) {
    if (next[choice] - stream.credited[choice] < kCreditStep) continue;
    const wire::Credit credit{stream.tag, stream.request_id, static_cast<std::int32_t>(choice),
                              next[choice]};
    if (send(credit)) {
      stream.credited[choice] = next[choice];
    } else {
      streams_due_.insert(stream.id);
    }
  }
}

void IoLoop::fail_stream(StreamId id, const Failure& failure) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  const StreamHandler handler = std::move(it->second.handler);
  stream_tags_.erase(it->second.tag);
  streams_.erase(it);
  if (handler.on_failure) handler.on_failure(failure);
}

}  // namespace holdfast::client
