#pragma once
// One TCP connection: reads requests one after the other, hands each to the handler as an Exchange,
// writes the answer with back-pressure, keeps the time limits. Includes Asio: for server.cpp and
// connection.cpp alone.

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "control/gateway/connection_book.h"
#include "control/gateway/server.h"
#include "control/gateway/tenant_slots.h"
#include "control/gateway/tls.h"

namespace holdfast::gateway {

/// What the connections of a server share.
struct ServerShared {
  explicit ServerShared(const ServerLimits& of)
      : limits(of), uploads(std::make_shared<TenantSlots>(of.uploads)) {}
  const ServerLimits limits;
  Server::Handler handler;
  Gate gate;
  ConnectionBook book{limits};
  std::atomic<bool> draining{false};
  std::shared_ptr<TenantSlots> uploads;
  std::shared_ptr<TlsIdentity> tls;  // nullptr: plain HTTP
  std::shared_ptr<HttpStats> stats = std::make_shared<HttpStats>();
};

class ConnectionExchange;

/// The answer to a connection that is one too many.
Response too_many_connections(const ServerLimits& limits);

/// All members on the strand of the socket; the pointer may travel.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;  // on a strand
  using Time = std::chrono::steady_clock::time_point;

  /// `id` is its number in the book, which it leaves at its end; 0: it is in none.
  Connection(Socket socket, std::shared_ptr<ServerShared> shared, ConnectionBook::Id id,
             bool stranger);
  ~Connection();

  void start();
  /// Any thread. An idle connection closes; a busy one after its answer. `now` closes either.
  void drain(bool now);
  /// Any thread. A request that is being answered may still say something (Exchange::on_stop), then
  /// the connection closes.
  void stop();
  /// Says `response` to a connection that is one too many, and closes.
  void turn_away(Response response);

  Socket::executor_type executor() { return socket_.get_executor(); }

  // For ConnectionExchange:
  void send(std::string bytes);
  void finish_answer(bool close_after);
  void begin_keep_alive(std::string comment);
  /// The answer cannot be completed: the client must see that.
  void cut() { close(); }
  std::size_t pending_bytes() const { return out_.size() + sending_.size() - sent_; }
  void when_drained(std::size_t low, std::function<void()> work);
  bool draining() const { return shared_->draining; }
  HttpStats& stats() { return *shared_->stats; }
  /// Another protocol than HTTP is spoken from here on, until the answer is finished.
  struct Raw {
    std::function<bool(std::string)> take;  // what came; false: no more, before read_on()
    std::function<void()> stop;             // the server wants the connection to end
  };
  void become_raw(Raw raw);
  void read_on() { read(); }
  /// Empty if the other side is gone.
  std::string peer_address() const;
  bool closed() const { return closed_; }

 private:
  void shake_hands();
  void read();
  void on_read(const boost::system::error_code& ec, std::size_t n);
  void take_raw();
  void parse();
  bool look();
  bool become_known(const std::string& tenant);
  void become_stranger();
  void begin_body();
  void wait_for_slot();
  bool upload_comes_on(Time now);
  void dispatch();
  void refuse(int status, const std::string& message);
  void write();
  void on_written(const boost::system::error_code& ec, std::size_t n);
  void after_answer();
  void linger();
  void close();
  void arm();
  void on_timer();
  int kernel_queue();
  Time next_due() const;

  Socket socket_;
  std::unique_ptr<TlsStream> tls_;  // over socket_; nullptr: plain
  std::shared_ptr<ServerShared> shared_;
  const ConnectionBook::Id id_;
  bool stranger_;       // it has not shown a key
  std::string tenant_;  // of the request that is being read
  boost::asio::steady_timer timer_;
  Time armed_ = Time::max();

  RequestParser parser_;
  std::string in_;  // bytes that the parser has not taken
  std::array<char, 4096> read_buffer_;
  bool reading_ = false;
  Time read_due_ = Time::max();  // head, body or idle limit
  bool begun_ = false;           // a byte of the coming request is there
  bool continued_ = false;       // "100 Continue" was said
  bool body_begun_ = false;      // its time runs
  bool looked_ = false;          // at the head of the coming request
  bool looking_ = false;         // … the answer is to come

  std::string out_;      // waits for sending_
  std::string sending_;  // given to the socket
  std::size_t sent_ = 0;
  bool writing_ = false;
  Time write_progress_{};
  int queued_ = 0;          // in the kernel's buffer when a write last ended with more to send
  std::string keep_alive_;  // as sent, empty = off

  TenantSlots::Slot upload_;       // until its answer is there, as its bytes are in memory
  bool waits_for_slot_ = false;    // for one
  Time upload_due_ = Time::max();  // the whole body
  std::size_t upload_bytes_ = 0;   // came since the last look
  std::shared_ptr<ConnectionExchange> active_;
  std::size_t drain_low_ = 0;
  std::function<void()> drain_work_;
  Raw raw_;
  bool answered_ = false;  // the active answer is complete, its bytes may be on their way
  bool close_after_ = false;
  bool lingering_ = false;
  std::size_t discarded_ = 0;
  bool closed_ = false;
};

}  // namespace holdfast::gateway
