#include "control/gateway/http/connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <charconv>
#include <exception>
#include <iterator>
#include <vector>

#include "control/gateway/http/errors.h"
#include "control/gateway/http/refused_keys.h"
#include "control/gateway/http/websocket.h"
#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/base/log_fields.h"

namespace holdfast::gateway {

namespace net = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using State = RequestParser::State;

namespace {

constexpr std::size_t kPipelinedBytesMax = 16 * 1024;   // read ahead while an answer is under way
constexpr std::size_t kIdleBufferBytesMax = 16 * 1024;  // larger buffers are freed when empty
constexpr std::size_t kPartBytesMax = 256 * 1024;       // read ahead of a body that comes in parts
constexpr std::size_t kLingerBytesMax = 2 * 1024 * 1024;
constexpr std::chrono::milliseconds kLingerTime{1'000};
// The kernel would let this grow to megabytes: memory for each slow reader, and a measure of
// progress that moves only every few hundred kilobytes.
constexpr int kSocketSendBytes = 128 * 1024;

TcpEnds::End end_of(const net::ip::tcp::endpoint& from) {
  TcpEnds::End end;
  end.port = from.port();
  const auto copy = [&](const auto& bytes) {
    std::copy(bytes.begin(), bytes.end(), end.address.begin());
  };
  from.address().is_v6() ? copy(from.address().to_v6().to_bytes())
                         : copy(from.address().to_v4().to_bytes());
  return end;
}

TcpEnds ends_of(const net::ip::tcp::socket& socket) {
  TcpEnds ends;
  error_code ec;
  const auto client = socket.remote_endpoint(ec);
  if (ec) return ends;  // the peer is gone
  const auto server = socket.local_endpoint(ec);
  if (ec) return ends;
  ends.v6 = client.address().is_v6();
  ends.client = end_of(client);
  ends.server = end_of(server);
  return ends;
}

}  // namespace

class ConnectionExchange final : public Exchange,
                                 public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, Request request)
      : connection_(std::move(connection)), request_(std::move(request)) {}

  const Request& request() const override { return request_; }

  void admit(Principal principal) override { request_.from = std::move(principal); }
  void set_body(std::string body) override { request_.body = std::move(body); }

  void post(std::function<void()> work) override {
    net::post(connection_->executor(),
              [self = shared_from_this(), work = std::move(work)] { self->run(work); });
  }

  /// Runs `work`. If memory runs out, this request is answered with that if possible, and the
  /// others go on.
  void run(const std::function<void()>& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      log::error("no memory for a request", {{"path", request_.path.substr(0, 100)}});
      if (begun_) return abort();
      respond(memory_response());
    }
  }

  void after(std::chrono::milliseconds delay, std::function<void()> work) override {
    if (over_) return;
    auto timer = std::make_shared<net::steady_timer>(connection_->executor(), delay);
    timers_.push_back(timer);
    timer->async_wait([self = shared_from_this(), timer, work = std::move(work)](error_code ec) {
      if (!ec && !self->over_) work();
    });
  }

  void receive_body(const BodyParts& parts) override {
    if (!over_) connection_->receive_body(parts);
  }
  void next_part() override {
    if (!over_) connection_->next_part();
  }

  void respond(Response response) override {
    if (over_) return;
    CHECK_MSG(!begun_, "an exchange is answered once");
    begun_ = true;
    if (response.status >= 400) {
      response.body = error_for(request_.path, response.status, std::move(response.body));
    }
    note_answer(response);
    add_headers(response);
    const bool close = closes();
    std::string bytes = response_head(response, request_.http11, close,
                                      static_cast<std::int64_t>(response.body.size()));
    if (request_.method != "HEAD") bytes += response.body;
    finish(std::move(bytes), close);
  }

  void begin_stream(Response head, std::string keep_alive) override {
    if (over_) return;
    CHECK_MSG(!begun_, "an exchange is answered once");
    begun_ = true;
    note_answer(head);
    add_headers(head);
    streaming_ = true;
    ++connection_->stats().streams;
    std::string bytes = response_head(head, request_.http11, closes(), -1);
    connection_->send(std::move(bytes));
    if (!keep_alive.empty()) connection_->begin_keep_alive(framed(keep_alive));
  }

  void write(std::string_view bytes) override {
    if (!over_ && !bytes.empty()) connection_->send(framed(bytes));
  }

  void end() override {
    if (over_) return;
    if (raw_) return finish("", true);
    finish(request_.http11 ? "0\r\n\r\n" : "", closes());
  }

  MessageSocketPtr accept_socket(const SocketEvents& events, std::size_t bytes_max) override {
    if (over_) return nullptr;
    CHECK_MSG(!begun_, "an exchange is answered once");
    begun_ = raw_ = true;
    Response head;
    head.status = 101;
    note_answer(head);
    streaming_ = true;
    ++connection_->stats().streams;
    return open_websocket(connection_, shared_from_this(), events, bytes_max);
  }

  void abort() override {
    if (over_) return;
    abandon();
    connection_->cut();
  }

  std::size_t pending_bytes() const override { return over_ ? 0 : connection_->pending_bytes(); }

  void on_drain(std::size_t low, std::function<void()> work) override {
    if (!over_) connection_->when_drained(low, std::move(work));
  }

  void on_close(std::function<void()> work) override {
    if (over_) return work();
    close_work_ = std::move(work);
  }

  void on_stop(const std::function<void()>& work) override {
    if (!over_) stop_work_ = work;
  }

  /// Ends the answer early. Returns false if nothing can be sent, so that the connection must be
  /// cut.
  bool stop() {
    if (over_ || !stop_work_) return over_;
    std::exchange(stop_work_, nullptr)();
    return true;
  }

  bool closed() const override { return over_ && !ended_; }

  void set_route(RouteName route) override { route_ = route; }
  void set_headers(const std::vector<Header>& headers) override { headers_ = headers; }

  /// Tells the endpoint that the connection was lost before the answer was complete.
  void abandon() {
    if (over_) return;
    over_ = true;
    stop_streaming();
    stop_work_ = nullptr;
    cancel_timers();
    if (auto work = std::exchange(close_work_, nullptr)) work();
  }

 private:
  bool closes() const {
    // HTTP/1.0 streams end with the connection.
    return !request_.keep_alive || connection_->draining() || !request_.http11;
  }

  std::string framed(std::string_view bytes) const {
    if (!request_.http11) return std::string(bytes);
    char size[20];
    const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
    std::string out;
    out.reserve(bytes.size() + 24);
    out.append(size, end).append("\r\n").append(bytes).append("\r\n");
    return out;
  }

  void finish(std::string bytes, bool close) {
    ended_ = over_ = true;
    stop_streaming();
    close_work_ = stop_work_ = nullptr;
    cancel_timers();
    // The connection drops its reference to this object here; the caller still has one.
    connection_->send(std::move(bytes));
    connection_->finish_answer(close);
  }

  void note_answer(const Response& response) {
    connection_->stats().answered(route_, response.status);
    if (response.status == 401) note_refused_key(connection_->peer_address());
    const log::Level level = response.status >= 500 ? log::Level::kWarn : log::Level::kDebug;
    if (!log::enabled(level)) return;
    std::string id;
    for (const Header& header : response.headers) {
      if (equal_ignoring_case(header.first, "X-Request-Id")) id = header.second;
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_);
    log::write(level, "answered",
               {{"request", id},
                {"client_request", client_request_id(request_)},
                {"method", request_.method},
                {"path", request_.path},
                {"status", response.status},
                {"ms", static_cast<std::int64_t>(ms.count())}});
  }

  void add_headers(Response& response) {
    if (std::string id = client_request_id(request_); !id.empty()) {
      response.headers.emplace_back("X-Client-Request-Id", std::move(id));
    }
    std::move(headers_.begin(), headers_.end(), std::back_inserter(response.headers));
  }

  void stop_streaming() {
    if (std::exchange(streaming_, false)) --connection_->stats().streams;
  }

  void cancel_timers() {
    for (const auto& timer : timers_) timer->cancel();
    timers_.clear();
  }

  std::shared_ptr<Connection> connection_;
  Request request_;
  std::function<void()> close_work_, stop_work_;
  std::vector<std::shared_ptr<net::steady_timer>> timers_;
  RouteName route_;
  std::vector<Header> headers_;  // for any answer
  Clock::time_point begin_ = Clock::now();
  bool begun_ = false;
  bool streaming_ = false;
  bool raw_ = false;    // another protocol than HTTP
  bool over_ = false;   // answered or abandoned
  bool ended_ = false;  // answered
};

Response too_many_connections(const ServerLimits& limits) {
  wire::Refusal refusal;
  refusal.code = Errc::kRateLimited;
  refusal.message = "too many connections (" + std::to_string(limits.connections_per_address) +
                    " per address): close some, or use keep-alive";
  refusal.retry_after_ms = 1'000;
  return error_response(refusal);
}

Connection::Connection(Socket socket, std::shared_ptr<ServerShared> shared, ConnectionTable::Id id,
                       bool stranger)
    : socket_(std::move(socket)),
      shared_(std::move(shared)),
      id_(id),
      stranger_(stranger),
      timer_(socket_.get_executor()),
      parser_(shared_->limits.parse) {
  ++shared_->stats->connections;
}

Connection::~Connection() {
  --shared_->stats->connections;
  if (id_ != 0) shared_->connections.leave(id_);
}

void Connection::start() {
  net::dispatch(executor(), [self = shared_from_this()] {
    error_code ec;
    self->socket_.set_option(net::ip::tcp::no_delay(true), ec);
    self->socket_.set_option(net::socket_base::send_buffer_size(kSocketSendBytes), ec);
    const ServerLimits& limits = self->shared_->limits;
    self->read_due_ =
        Clock::now() + (self->stranger_ ? limits.stranger_header_time : limits.header_time);
    self->arm();
    self->shared_->tls == nullptr ? self->read() : self->start_tls();
  });
}

/// Handshakes within the time limit of a request's head.
void Connection::start_tls() {
  tls_ = shared_->tls->stream(socket_);
  tls_->handshake([self = shared_from_this()](TlsStream::Handshake handshake) {
    if (self->closed_) return;
    if (handshake == TlsStream::Handshake::kTls) return self->read();
    if (handshake == TlsStream::Handshake::kNothing) return self->close();
    self->tls_.reset();
    self->refuse(400, "this address speaks HTTPS: write https:// before it");
  });
}

std::string Connection::peer_address() const {
  boost::system::error_code failed;
  const auto peer = socket_.remote_endpoint(failed);
  return failed ? std::string() : peer.address().to_string();
}

void Connection::drain(bool now) {
  net::post(executor(), [self = shared_from_this(), now] {
    if (now || (!self->active_ && !self->writing_ && !self->begun_)) return self->close();
    if (const auto stop = self->raw_.stop) stop();
  });
}

void Connection::stop() {
  net::post(executor(), [self = shared_from_this()] {
    if (self->active_ ? !self->active_->stop() : !self->writing_) self->close();
  });
}

void Connection::turn_away(Response response) {
  net::post(executor(), [self = shared_from_this(), response = std::move(response)] {
    self->close_after_ = self->answered_ = true;
    self->shared_->stats->answered({}, response.status);
    self->send(
        response_head(response, true, true, static_cast<std::int64_t>(response.body.size())) +
        response.body);
    self->arm();
  });
}

void Connection::read() {
  if (reading_ || closed_) return;
  reading_ = true;
  const auto done = [self = shared_from_this()](const error_code& ec, std::size_t n) {
    self->on_read(ec, n);
  };
  if (tls_ != nullptr) return tls_->read_some(net::buffer(read_buffer_), done);
  socket_.async_read_some(net::buffer(read_buffer_), done);
}

void Connection::on_read(const error_code& ec, std::size_t n) {
  reading_ = false;
  if (closed_) return;
  if (ec) return on_read_error(ec);
  if (lingering_) return discard(n);
  shared_->stats->bytes_received += n;
  in_.append(read_buffer_.data(), n);
  if (body_ != nullptr) return parse_part();
  if (raw_.take && !answered_) return take_raw();
  if (active_ || answered_) {
    // These bytes are the next request, or more of a body that is not wanted. Reading goes on
    // within a bound, so that the client's leaving is noticed.
    if (in_.size() < kPipelinedBytesMax) read();
    return;
  }
  parse();
}

void Connection::discard(std::size_t n) {
  discarded_ += n;
  if (discarded_ > kLingerBytesMax) return close();
  read();
}

/// A client that has closed its side still gets the rest of a complete answer.
void Connection::on_read_error(const error_code& ec) {
  if (ec != net::error::eof || !answered_ || pending_bytes() == 0) return close();
  close_after_ = true;
}

void Connection::become_raw(Raw raw) {
  raw_ = std::move(raw);
  if (in_.empty()) return;
  net::post(executor(), [self = shared_from_this()] {
    if (self->raw_.take) self->take_raw();
  });
}

void Connection::take_raw() {
  const auto take = raw_.take;  // raw_ may be reset within the call
  if (take(std::exchange(in_, {}))) read();
}

void Connection::parse() {
  begin_head();
  const std::size_t used = parser_.feed(in_);
  in_.erase(0, used);
  upload_bytes_ += used;
  if (parser_.state() == State::kFailed) {
    return refuse(parser_.failure_status(), parser_.failure());
  }
  if (!judge_head()) return;
  if (parser_.state() == State::kDone || parser_.body_kind() == BodyKind::kBlob) return dispatch();
  if (parser_.state() == State::kBody && !std::exchange(body_begun_, true)) begin_body();
  if (waits_for_slot_ || answered_) return;
  invite_body();
  arm();
  read();
}

/// Bounds the time of a head from its first byte on.
void Connection::begin_head() {
  if (begun_ || in_.empty()) return;
  begun_ = true;
  const ServerLimits& limits = shared_->limits;
  read_due_ = std::min(
      read_due_, Clock::now() + (stranger_ ? limits.stranger_header_time : limits.header_time));
}

/// Lets the gate look at a head that is complete. Returns false as look() does.
bool Connection::judge_head() {
  if (parser_.state() == State::kHead || looked_) return true;
  if (!looking_) {
    parser_.request().arrived_us = system_clock().monotonic_us();
    parser_.request().ends = ends_of(socket_);
  }
  return look();
}

/// Tells a client that waits with its body to send it.
void Connection::invite_body() {
  const bool waits = parser_.state() == State::kBody && parser_.request().expects_continue;
  if (!waits || continued_ || !in_.empty()) return;
  continued_ = true;
  send("HTTP/1.1 100 Continue\r\n\r\n");
}

/// Asks the gate about a complete head: the caller decides whether more of the request is read.
/// Returns false if it was answered or will be judged again.
bool Connection::look() {
  if (!shared_->gate.look) return looked_ = true;
  std::function<void()> again;
  if (!looking_) {
    again = [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      net::post(self->executor(), [self] {
        if (!self->closed_ && self->looking_) self->parse();
      });
    };
  }
  const std::optional<Caller> caller = shared_->gate.look(parser_.request(), std::move(again));
  looking_ = !caller.has_value();
  if (looking_) {
    read_due_ = Time::max();
    return false;
  }
  looked_ = true;
  if (caller->authenticated) return become_authenticated(caller->tenant);
  become_stranger();
  if (parser_.state() == State::kDone) return true;
  // Whatever the answer, it does not depend on the body.
  parser_.request().keep_alive = parser_.request().body_read = false;
  dispatch();
  return false;
}

/// Returns false if there are too many connections already.
bool Connection::become_authenticated(const std::string& tenant) {
  tenant_ = tenant;
  if (!stranger_) return true;
  if (!shared_->connections.know(id_, tenant)) {
    ++shared_->stats->connections_refused;
    turn_away(too_many_connections(shared_->limits));
    return false;
  }
  stranger_ = false;
  return true;
}

void Connection::become_stranger() {
  if (stranger_ || shared_->gate.open()) return;
  stranger_ = true;
  if (const auto gives_way = shared_->connections.forget(id_)) gives_way->drain(true);
}

void Connection::begin_body() {
  const ServerLimits& limits = shared_->limits;
  if (parser_.body_kind() == BodyKind::kFile) return wait_for_slot();
  read_due_ = Clock::now() + limits.body_time;
}

/// Waits for a slot before more of the file is read.
void Connection::wait_for_slot() {
  waits_for_slot_ = true;
  read_due_ = Clock::now() + shared_->limits.upload_wait;
  const auto granted = [weak = weak_from_this()](TenantSlots::Slot slot) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    net::dispatch(self->executor(), [self, slot = std::move(slot)]() mutable {
      if (self->closed_ || !self->waits_for_slot_) return;
      self->waits_for_slot_ = false;
      self->upload_ = std::move(slot);
      self->upload_bytes_ = 0;
      self->upload_due_ = Clock::now() + self->shared_->limits.upload_time;
      self->read_due_ =
          std::min(self->upload_due_, Clock::now() + self->shared_->limits.upload_look);
      net::post(self->executor(), [self] {
        if (!self->closed_ && !self->answered_ && !self->active_) self->parse();
      });
    });
  };
  if (!shared_->uploads->take(tenant_, granted)) {
    waits_for_slot_ = false;
    return refuse(503, "too many files of this tenant wait to be uploaded; try again later");
  }
  arm();
}

/// True if the upload may go on: while others wait for its slot, it must make progress.
bool Connection::upload_comes_on(Time now) {
  if (upload_ == nullptr || now >= upload_due_) return false;
  if (upload_bytes_ < shared_->limits.upload_progress && shared_->uploads->has_waiters())
    return false;
  upload_bytes_ = 0;
  read_due_ = std::min(upload_due_, now + shared_->limits.upload_look);
  return true;
}

void Connection::dispatch() {
  read_due_ = Clock::time_point::max();
  begun_ = false;
  parser_.request().secure = tls_ != nullptr;
  const bool in_parts = parser_.body_kind() == BodyKind::kBlob && parser_.request().body_read;
  if (in_parts) begin_parts();
  active_ = std::make_shared<ConnectionExchange>(shared_from_this(), std::move(parser_.request()));
  if (!in_parts) parser_ = RequestParser(shared_->limits.parse);
  continued_ = looked_ = body_begun_ = false;
  if (in_.capacity() > kIdleBufferBytesMax && in_.empty()) in_.shrink_to_fit();
  const std::shared_ptr<ConnectionExchange> exchange = active_;
  arm();
  if (!in_parts && in_.size() < kPipelinedBytesMax) read();
  try {
    exchange->run([this, &exchange] { shared_->handler(exchange); });
  } catch (const std::exception& e) {
    log::error("handler failed", {{"path", exchange->request().path}, {"what", e.what()}});
    if (!exchange->closed()) close();
  }
}

/// Leaves the body to the endpoint, which receives it while it answers. The connection ends with
/// the answer, as the endpoint may answer before the body's end.
void Connection::begin_parts() {
  body_ = std::make_unique<BodyStream>();
  body_->bytes = parser_.take_body();
  body_->whole = parser_.state() == State::kDone;
  parser_.request().body_follows = true;
  parser_.request().keep_alive = false;
}

void Connection::receive_body(const BodyParts& parts) {
  CHECK_MSG(body_ != nullptr, "this request has no body that comes in parts");
  body_->parts = parts;
  const bool waits = active_->request().expects_continue && !body_->whole && body_->bytes.empty();
  if (waits) send("HTTP/1.1 100 Continue\r\n\r\n");
  next_part();
}

void Connection::next_part() {
  net::post(executor(), [self = shared_from_this()] {
    if (self->closed_ || self->body_ == nullptr) return;
    self->body_->due = true;
    self->give_part();
  });
}

void Connection::parse_part() {
  const std::size_t used = parser_.feed(in_);
  in_.erase(0, used);
  body_->bytes += parser_.take_body();
  if (parser_.state() == State::kFailed) {
    return fail_body(parser_.failure_status(), parser_.failure());
  }
  body_->whole = parser_.state() == State::kDone;
  give_part();
}

/// Gives what there is to an endpoint that waits for it, and reads on within a bound.
void Connection::give_part() {
  if (body_->due && body_->whole && body_->bytes.empty()) {
    read_due_ = Time::max();
    const BodyParts parts = std::move(std::exchange(body_, nullptr)->parts);
    return parts.on_end();
  }
  if (body_->due && !body_->bytes.empty()) {
    body_->due = false;
    const auto on_bytes = body_->parts.on_bytes;  // the call may end the body
    on_bytes(std::exchange(body_->bytes, {}));
    if (closed_ || body_ == nullptr) return;
  }
  const bool reads = !body_->whole && body_->bytes.size() < kPartBytesMax;
  read_due_ = reads ? Clock::now() + shared_->limits.body_time : Time::max();
  if (!reads) return;
  arm();
  read();
}

void Connection::fail_body(int status, const std::string& message) {
  read_due_ = Time::max();
  const BodyParts parts = std::move(std::exchange(body_, nullptr)->parts);
  parts.on_failure(error_response(status, message));
}

void Connection::refuse(int status, const std::string& message) {
  read_due_ = Clock::time_point::max();
  close_after_ = answered_ = true;
  waits_for_slot_ = looking_ = false;
  shared_->stats->answered({}, status);
  const Response response = error_response(status, message);
  send(response_head(response, true, true, static_cast<std::int64_t>(response.body.size())) +
       response.body);
  arm();
}

void Connection::send(std::string bytes) {
  if (closed_) return;
  if (!writing_ && out_.empty()) write_progress_ = Clock::now();
  if (out_.empty()) {
    out_ = std::move(bytes);
  } else {
    out_ += bytes;
  }
  write();
  arm();
}

void Connection::write() {
  if (writing_ || closed_) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
    if (sending_.capacity() > kIdleBufferBytesMax) std::string().swap(sending_);
    if (out_.empty()) {
      if (answered_) after_answer();
      return;
    }
    sending_.swap(out_);
  }
  writing_ = true;
  const net::const_buffer rest = net::buffer(sending_.data() + sent_, sending_.size() - sent_);
  const auto done = [self = shared_from_this()](const error_code& ec, std::size_t n) {
    self->on_written(ec, n);
  };
  if (tls_ != nullptr) return tls_->write_some(rest, done);
  socket_.async_write_some(rest, done);
}

void Connection::on_written(const error_code& ec, std::size_t n) {
  writing_ = false;
  if (closed_) return;
  if (ec) return close();
  sent_ += n;
  shared_->stats->bytes_sent += n;
  write_progress_ = Clock::now();
  write();
  if (pending_bytes() > 0) queued_ = kernel_queue();
  arm();
  if (drain_work_ && pending_bytes() <= drain_low_) std::exchange(drain_work_, nullptr)();
}

/// Returns the number of bytes that the peer has not acknowledged yet.
int Connection::kernel_queue() {
  int bytes = 0;
  return ::ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void Connection::begin_keep_alive(std::string comment) {
  keep_alive_ = std::move(comment);
  arm();
}

void Connection::when_drained(std::size_t low, std::function<void()> work) {
  if (pending_bytes() <= low) {
    net::post(executor(), std::move(work));
    return;
  }
  drain_low_ = low;
  drain_work_ = std::move(work);
}

void Connection::finish_answer(bool close_after) {
  keep_alive_.clear();
  drain_work_ = nullptr;
  raw_ = {};
  body_.reset();
  close_after_ = close_after_ || close_after;
  answered_ = true;
  active_.reset();
  arm();
  // Written later: within send() the end of the answer was not known yet.
  net::post(executor(), [self = shared_from_this()] { self->write(); });
}

void Connection::after_answer() {
  if (close_after_ || draining()) return linger();
  answered_ = false;
  upload_.reset();
  read_due_ =
      Clock::now() + (stranger_ ? shared_->limits.stranger_idle_time : shared_->limits.idle_time);
  arm();
  if (in_.empty()) return read();
  net::post(executor(), [self = shared_from_this()] {
    if (!self->closed_ && !self->active_ && !self->answered_) self->parse();
  });
}

/// Closes the connection so that the answer arrives. Closing with unread bytes makes the kernel
/// send RST, which can destroy the answer on its way. So this says that no more comes, and drops
/// what the client still sends for a moment.
void Connection::linger() {
  if (lingering_) return;
  lingering_ = true;
  error_code ec;
  if (tls_ != nullptr) {
    tls_->shut([self = shared_from_this()] { self->close(); });
  } else {
    socket_.shutdown(net::ip::tcp::socket::shutdown_send, ec);
  }
  in_.clear();
  read_due_ = Clock::now() + kLingerTime;
  arm();
  read();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  timer_.cancel();
  error_code ec;
  socket_.close(ec);
  drain_work_ = nullptr;
  if (const auto exchange = std::exchange(active_, nullptr)) exchange->abandon();
  body_.reset();
  raw_ = {};
}

Connection::Time Connection::next_due() const {
  if (pending_bytes() > 0) {
    return std::min(read_due_, write_progress_ + shared_->limits.stall_time);
  }
  if (!keep_alive_.empty()) {
    return std::min(read_due_, write_progress_ + shared_->limits.keep_alive_time);
  }
  return read_due_;
}

/// Arms one timer for all limits and moves it only to earlier times. Writes, which push limits
/// back, do not touch it; the timer checks again when it fires.
void Connection::arm() {
  const Time due = next_due();
  if (closed_ || due >= armed_) return;
  armed_ = due;
  timer_.expires_at(due);
  timer_.async_wait([self = shared_from_this(), due](const error_code& ec) {
    if (ec || self->closed_ || self->armed_ != due) return;
    self->armed_ = Time::max();
    self->on_timer();
  });
}

void Connection::on_timer() {
  const Time now = Clock::now();
  if (now >= read_due_ && waits_for_slot_) {
    waits_for_slot_ = false;
    return refuse(503, "too many files are being uploaded; try again later");
  }
  if (now >= read_due_ && !upload_comes_on(now)) return on_read_overdue();
  if (now >= next_due() && !on_write_due(now)) return;
  arm();
}

void Connection::on_read_overdue() {
  if (body_ != nullptr) return fail_body(408, "the request body took too long: no byte came");
  if (lingering_ || !begun_) return close();
  refuse(408, parser_.state() == State::kHead ? "the request head took too long"
                                              : "the request body took too long");
}

/// Keeps an idle answer alive, or closes a connection whose client takes no bytes. Returns false if
/// it was closed.
bool Connection::on_write_due(Time now) {
  // The socket takes more only when a good part of its buffer is free. A reader may be slower
  // than that and still take bytes, which the kernel's queue shows.
  const int queued = kernel_queue();
  if (pending_bytes() == 0) {
    send(keep_alive_);
    return true;
  }
  if (queued < queued_) {
    queued_ = queued;
    write_progress_ = now;
    return true;
  }
  ++shared_->stats->readers_cut_off;
  log::info("client takes no bytes: closed",
            {{"pending", static_cast<std::int64_t>(pending_bytes())}});
  close();
  return false;
}

}  // namespace holdfast::gateway
