#include "control/gateway/http/websocket.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <utility>
#include <vector>

namespace holdfast::gateway {

namespace websocket {  // a namespace of its own: Beast finds what is below by ADL

namespace net = boost::asio;
namespace beast = boost::beast;
namespace ws = beast::websocket;
using boost::system::error_code;

constexpr std::size_t kReadAheadMax = 64 * 1024;   // then no more is read from the client
constexpr std::size_t kWriteAheadMax = 64 * 1024;  // then the next write waits
constexpr std::chrono::seconds kHandshakeTime{5};  // for opening and for closing
constexpr std::chrono::seconds kIdleTime{60};      // a ping after half of it, the end after all

/// The bytes of a connection for one reader and one writer. Operations that wait when the
/// connection ends are completed with an error.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  using Executor = Connection::Socket::executor_type;
  explicit Pipe(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  Executor executor() { return connection_->executor(); }

  /// Takes bytes from the connection. Returns false if that is enough for now.
  bool take(const std::string& bytes) {
    in_ += bytes;
    if (read_) std::exchange(read_, nullptr)();
    paused_ = in_.size() >= kReadAheadMax;
    return !paused_;
  }
  /// Runs `work` when there are bytes, which it takes with get(), or at the end.
  void read(std::function<void()> work) {
    if (lost_ || !in_.empty()) return work();
    read_ = std::move(work);
  }
  template <class Buffers>
  std::size_t get(const Buffers& to) {
    const std::size_t n = net::buffer_copy(to, net::buffer(in_));
    in_.erase(0, n);
    if (paused_ && in_.size() < kReadAheadMax && !lost_) {
      paused_ = false;
      connection_->read_on();
    }
    return n;
  }

  void write(std::string bytes, std::function<void()> work) {
    if (lost_) return work();
    write_ = std::move(work);
    connection_->send(std::move(bytes));
    when_low(kWriteAheadMax, [self = shared_from_this()] {
      if (self->write_) std::exchange(self->write_, nullptr)();
    });
  }
  /// Runs `work` when the connection has at most `low` bytes to send.
  void when_low(std::size_t low, std::function<void()> work) {
    if (lost_) return;
    waits_.emplace_back(low, std::move(work));
    arm();
  }

  void lose() {
    if (std::exchange(lost_, true)) return;
    waits_.clear();
    if (read_) std::exchange(read_, nullptr)();
    if (write_) std::exchange(write_, nullptr)();
  }
  bool lost() const { return lost_; }

 private:
  using Wait = std::pair<std::size_t, std::function<void()>>;

  /// Arms the connection's only mark: the next one that will be reached.
  void arm() {
    std::size_t low = 0;
    for (const Wait& wait : waits_) low = std::max(low, wait.first);
    if (waits_.empty()) return;
    connection_->when_drained(low, [self = shared_from_this()] { self->look(); });
  }
  void look() {
    std::vector<Wait> waits = std::exchange(waits_, {});
    const std::size_t pending = connection_->pending_bytes();
    const auto reached = std::stable_partition(
        waits.begin(), waits.end(), [&](const Wait& wait) { return wait.first < pending; });
    std::move(waits.begin(), reached, std::back_inserter(waits_));
    arm();
    for (auto wait = reached; wait != waits.end(); ++wait) wait->second();
  }

  std::shared_ptr<Connection> connection_;
  std::string in_;
  std::function<void()> read_, write_;
  std::vector<Wait> waits_;
  bool paused_ = false;
  bool lost_ = false;
};

/// The pipe as the stream that Beast expects. Handlers run later, on the strand.
class Wire {
 public:
  using executor_type = Pipe::Executor;
  explicit Wire(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
  executor_type get_executor() { return pipe_->executor(); }

  template <class Buffers, class Handler>
  auto async_read_some(const Buffers& to, Handler&& handler) {
    return net::async_initiate<Handler, void(error_code, std::size_t)>(
        [pipe = pipe_](auto done, const Buffers& buffers) {
          const auto completion = std::make_shared<decltype(done)>(std::move(done));
          pipe->read([pipe, completion, buffers] {
            const error_code ec = pipe->lost() ? net::error::operation_aborted : error_code();
            finish(*pipe, *completion, ec, ec ? 0 : pipe->get(buffers));
          });
        },
        handler, to);
  }

  template <class Buffers, class Handler>
  auto async_write_some(const Buffers& from, Handler&& handler) {
    return net::async_initiate<Handler, void(error_code, std::size_t)>(
        [pipe = pipe_](auto done, const Buffers& buffers) {
          const auto completion = std::make_shared<decltype(done)>(std::move(done));
          std::string bytes = beast::buffers_to_string(buffers);
          const std::size_t n = bytes.size();
          pipe->write(std::move(bytes), [pipe, completion, n] {
            const error_code ec = pipe->lost() ? net::error::operation_aborted : error_code();
            finish(*pipe, *completion, ec, ec ? 0 : n);
          });
        },
        handler, from);
  }

  // The way Beast ends the stream below it: what was sent still goes out, the exchange ends then.
  template <class Handler>
  friend void async_teardown(beast::role_type, Wire& wire, Handler&& handler) {
    net::post(wire.get_executor(),
              beast::bind_front_handler(std::forward<Handler>(handler), error_code()));
  }
  friend void teardown(beast::role_type, Wire&, error_code& ec) { ec = {}; }
  friend void beast_close_socket(Wire& wire) { wire.pipe_->lose(); }

 private:
  template <class Done>
  static void finish(Pipe& pipe, Done& done, error_code ec, std::size_t n) {
    net::post(pipe.executor(), beast::bind_front_handler(std::move(done), ec, n));
  }
  std::shared_ptr<Pipe> pipe_;
};

beast::http::request<beast::http::empty_body> handshake_of(const Request& request) {
  beast::http::request<beast::http::empty_body> out;
  out.method_string(request.method);
  out.target(request.path);
  out.version(request.http11 ? 11 : 10);
  for (const Header& header : request.headers) out.insert(header.first, header.second);
  return out;
}

class BeastSocket final : public MessageSocket, public std::enable_shared_from_this<BeastSocket> {
 public:
  BeastSocket(std::shared_ptr<Connection> connection, ExchangePtr exchange, SocketEvents events,
              std::size_t bytes_max)
      : pipe_(std::make_shared<Pipe>(std::move(connection))),
        exchange_(std::move(exchange)),
        events_(std::move(events)),
        stream_(pipe_) {
    stream_.set_option(ws::stream_base::timeout{kHandshakeTime, kIdleTime, true});
    stream_.set_option(ws::stream_base::decorator(
        [](ws::response_type& response) { response.erase(beast::http::field::server); }));
    stream_.read_message_max(bytes_max);
    stream_.auto_fragment(false);
  }

  void open(Connection& connection) {
    const auto self = shared_from_this();
    connection.become_raw({[pipe = pipe_](const std::string& bytes) { return pipe->take(bytes); },
                           [self] { self->stop(); }});
    exchange_->on_close([self] { self->end(); });
    stream_.async_accept(handshake_of(exchange_->request()),
                         [self](error_code ec) { self->on_accepted(ec); });
  }

  void read_next() override {
    wants_ = true;
    read();
  }

  void send(std::string text) override {
    if (over_ || closing_) return;
    out_bytes_ += text.size();
    out_.push_back(std::move(text));
    write();
  }

  void close(int code, const std::string& reason) override {
    if (over_ || std::exchange(closing_, true)) return;
    reason_ = ws::close_reason(static_cast<ws::close_code>(code), reason);
    write();
  }

  std::size_t pending_bytes() const override { return out_bytes_ + exchange_->pending_bytes(); }

  void on_drain(std::size_t low, std::function<void()> work) override {
    if (over_) return;
    if (out_.empty()) return pipe_->when_low(low, std::move(work));
    drains_.emplace_back(low, std::move(work));
  }

 private:
  void on_accepted(error_code ec) {
    if (ec) return finish();
    accepted_ = true;
    write();
    read();
  }

  void read() {
    if (over_ || closing_ || !accepted_ || !wants_ || std::exchange(reading_, true)) return;
    stream_.async_read(
        in_, [self = shared_from_this()](error_code ec, std::size_t) { self->on_read(ec); });
  }

  void on_read(error_code ec) {
    reading_ = wants_ = false;
    if (over_) return;
    // The peer closed, or broke the protocol: Beast has answered that.
    if (ec) return finish();
    if (!stream_.got_text()) return close(ws::close_code::unknown_data, "messages are text");
    std::string text = beast::buffers_to_string(in_.data());
    in_ = {};
    const auto on_text = events_.on_text;  // it may be reset within the call
    on_text(std::move(text));
  }

  /// Writes one message at a time; the close follows the last.
  void write() {
    if (over_ || !accepted_ || writing_) return;
    if (out_.empty() && !closing_) return;
    writing_ = true;
    const auto self = shared_from_this();
    if (out_.empty()) return stream_.async_close(reason_, [self](error_code) { self->finish(); });
    stream_.text(true);
    stream_.async_write(net::buffer(out_.front()),
                        [self](error_code ec, std::size_t) { self->on_written(ec); });
  }

  void on_written(error_code ec) {
    writing_ = false;
    if (over_) return;
    if (ec) return finish();
    out_bytes_ -= out_.front().size();
    out_.pop_front();
    if (out_.empty()) {
      for (auto& [low, work] : std::exchange(drains_, {})) pipe_->when_low(low, std::move(work));
    }
    write();
  }

  void stop() {
    if (const auto on_stop = events_.on_stop) on_stop();
  }

  /// Ends the exchange; what is under way to the client is still sent.
  void finish() {
    if (over_) return;
    end();
    exchange_->end();
  }

  void end() {
    if (std::exchange(over_, true)) return;
    const auto self = shared_from_this();
    pipe_->lose();
    drains_.clear();
    const SocketEvents events = std::exchange(events_, {});
    if (events.on_end) events.on_end();
  }

  std::shared_ptr<Pipe> pipe_;
  ExchangePtr exchange_;
  SocketEvents events_;
  ws::stream<Wire, false> stream_;  // without compression: a small message stays small
  beast::flat_buffer in_;
  std::deque<std::string> out_;
  std::size_t out_bytes_ = 0;
  std::vector<std::pair<std::size_t, std::function<void()>>> drains_;  // once out_ is empty
  ws::close_reason reason_;
  bool accepted_ = false;
  bool wants_ = false;  // wants a message
  bool reading_ = false;
  bool writing_ = false;
  bool closing_ = false;
  bool over_ = false;
};

}  // namespace websocket

MessageSocketPtr open_websocket(std::shared_ptr<Connection> connection, ExchangePtr exchange,
                                SocketEvents events, std::size_t bytes_max) {
  const auto socket = std::make_shared<websocket::BeastSocket>(connection, std::move(exchange),
                                                               std::move(events), bytes_max);
  socket->open(*connection);
  return socket;
}

}  // namespace holdfast::gateway
