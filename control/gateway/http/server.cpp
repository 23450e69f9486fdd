#include "control/gateway/http/server.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "control/gateway/http/connection.h"
#include "control/gateway/http/errors.h"
#include "shared/base/log.h"

namespace holdfast::gateway {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};  // after e.g. "too many open files"
constexpr std::chrono::milliseconds kLastWords{500};    // for what is not over at the end

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

/// The resolver would take 99999 modulo 65536.
bool is_port(const std::string& text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string::npos && std::stoi(text) <= 65'535;
}

std::string without_brackets(const std::string& host) {
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return brackets ? host.substr(1, host.size() - 2) : host;
}

/// Resolves "HOST:PORT" or "[V6]:PORT".
Result<tcp::endpoint> resolve(net::io_context& io, const std::string& host_port) {
  const std::size_t colon = host_port.rfind(':');
  const std::string port = colon == std::string::npos ? "" : host_port.substr(colon + 1);
  if (!is_port(port)) {
    return Error{Errc::kUsage,
                 "--http " + host_port + ": expected HOST:PORT with a port from 0 to 65535"};
  }
  const std::string host = without_brackets(host_port.substr(0, colon));
  error_code ec;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(host.empty() ? "0.0.0.0" : host, port, tcp::resolver::passive, ec);
  if (ec || found.empty()) {
    return Error{Errc::kUsage, "--http " + host_port + ": no such address: " + ec.message()};
  }
  // "localhost" is both ::1 and 127.0.0.1: take the one that clients without IPv6 reach too.
  for (const auto& entry : found) {
    if (entry.endpoint().address().is_v4()) return entry.endpoint();
  }
  return found.begin()->endpoint();
}

class AsioServer final : public Server {
 public:
  AsioServer(ServerLimits limits, Handler handler, std::shared_ptr<TlsIdentity> tls, Gate gate)
      : shared_(std::make_shared<ServerShared>(limits)),
        strand_(net::make_strand(io_)),
        timer_(strand_) {
    shared_->handler = std::move(handler);
    shared_->gate = std::move(gate);
    shared_->tls = std::move(tls);
  }

  Result<void> open(const std::string& host_port) {
    HOLDFAST_TRY(const tcp::endpoint endpoint, resolve(io_, host_port));
    error_code ec;
    tcp::acceptor acceptor(strand_);
    acceptor.open(endpoint.protocol(), ec);
    if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) acceptor.bind(endpoint, ec);
    if (!ec) acceptor.listen(net::socket_base::max_listen_connections, ec);
    if (ec == net::error::address_in_use) {
      return Error{Errc::kConflict, "cannot listen on " + host_port +
                                        ": another program has that port; choose another with "
                                        "--http HOST:PORT (port 0 picks a free one)"};
    }
    if (ec) return Error{Errc::kIo, "cannot listen on " + host_port + ": " + ec.message()};
    return add(std::move(acceptor));
  }

  Result<void> take(int fd) override {
    int listening = 0;
    socklen_t size = sizeof listening;
    sockaddr_storage name{};
    socklen_t name_size = sizeof name;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&name), &name_size) != 0) {
      return Error{Errc::kUsage, "HOLDFAST_HTTP_FD=" + std::to_string(fd) +
                                     ": not a listening socket; unset it or hand one down"};
    }
    error_code ec;
    tcp::acceptor acceptor(strand_);
    acceptor.assign(name.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, ec);
    if (ec) {
      return Error{Errc::kIo, "HOLDFAST_HTTP_FD=" + std::to_string(fd) + ": " + ec.message()};
    }
    return add(std::move(acceptor));
  }

  std::vector<std::string> addresses() const override {
    std::vector<std::string> all;
    for (const auto& listener : listeners_) all.push_back(listener->address);
    return all;
  }
  int connections() const override { return shared_->connections.size(); }
  std::shared_ptr<HttpStats> stats() const override { return shared_->stats; }

  ~AsioServer() override {
    if (probes_) (void)probes_->release();  // the caller owns the descriptor
  }

  void run(int threads) override {
    net::post(strand_, [this] {
      for (const auto& listener : listeners_) accept(*listener);
    });
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([this] { work(); });
    work();
    for (std::thread& t : others) t.join();
    // Handlers that never ran hold connections, which hold the io_context's services.
    for (const auto& connection : shared_->connections.all()) connection->drain(true);
    io_.restart();
    io_.poll();
  }

  void answer_probes(ProbeAnswer& probe) override {
    if (probe.fd() < 0) return;
    probes_.emplace(io_, probe.fd());
    wait_for_probe(probe);
  }

  void stop(std::chrono::milliseconds drain_time) override {
    net::post(strand_, [this, drain_time] {
      if (shared_->draining.exchange(true)) return;
      error_code ec;
      for (const auto& listener : listeners_) listener->acceptor.close(ec);
      for (const auto& connection : shared_->connections.all()) connection->drain(false);
      drain_end_ = std::chrono::steady_clock::now() + drain_time;
      wait_for_empty();
    });
  }

 private:
  /// A socket that listens. `timer` is for the pause after a failed accept.
  struct Listener {
    tcp::acceptor acceptor;
    net::steady_timer timer;
    std::string address;
  };

  Result<void> add(tcp::acceptor acceptor) {
    error_code ec;
    const tcp::endpoint endpoint = acceptor.local_endpoint(ec);
    if (ec) return Error{Errc::kIo, "listening socket: " + ec.message()};
    listeners_.push_back(std::make_unique<Listener>(
        Listener{std::move(acceptor), net::steady_timer(strand_), text_of(endpoint)}));
    return {};
  }

  void work() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& e) {  // a bug in one exchange: the others go on
        log::error("exception in the gateway", {{"what", e.what()}});
      }
    }
  }

  void wait_for_probe(ProbeAnswer& probe) {
    using Descriptor = net::posix::stream_descriptor;
    probes_->async_wait(Descriptor::wait_read, [this, &probe](error_code ec) {
      if (ec) return;
      probe.answer();
      wait_for_probe(probe);
    });
  }

  void accept(Listener& listener) {
    const auto accepted = [this, &listener](error_code ec, Connection::Socket socket) {
      if (shared_->draining || ec == net::error::operation_aborted) return;
      if (ec) return pause(listener, ec);
      welcome(std::move(socket));
      accept(listener);
    };
    listener.acceptor.async_accept(net::make_strand(io_), accepted);
  }

  void pause(Listener& listener, error_code ec) {
    log::warn("accept failed", {{"what", ec.message()}});
    listener.timer.expires_after(kAcceptPause);
    listener.timer.async_wait([this, &listener](error_code cancelled) {
      if (!cancelled && !shared_->draining) accept(listener);
    });
  }

  void welcome(Connection::Socket socket) {
    error_code ec;
    const tcp::endpoint peer = socket.remote_endpoint(ec);
    if (ec) return;  // gone already
    const std::string address = counted_address(peer.address().to_string());
    const bool stranger = shared_->gate.open && !shared_->gate.open();
    std::shared_ptr<Connection> gives_way;
    const ConnectionTable::Id id = stranger
                                       ? shared_->connections.enter_stranger(address, &gives_way)
                                       : shared_->connections.enter(address);
    if (gives_way != nullptr) {
      ++shared_->stats->strangers_dropped;
      gives_way->drain(true);
    }
    auto connection = std::make_shared<Connection>(std::move(socket), shared_, id, stranger);
    if (id == 0) {
      ++shared_->stats->connections_refused;
      if (shared_->tls != nullptr) return;  // a handshake would cost too much
      return connection->turn_away(too_many_connections(shared_->limits));
    }
    ++shared_->stats->connections_accepted;
    shared_->connections.set(id, connection);
    connection->start();
  }

  void wait_for_empty() {
    const auto now = std::chrono::steady_clock::now();
    if (shared_->connections.size() == 0) return io_.stop();
    if (now >= drain_end_ && !std::exchange(told_, true)) {
      for (const auto& connection : shared_->connections.all()) connection->stop();
    }
    if (now >= drain_end_ + kLastWords) {
      for (const auto& connection : shared_->connections.all()) connection->drain(true);
      if (now >= drain_end_ + 2 * kLastWords) return io_.stop();
    }
    timer_.expires_after(std::chrono::milliseconds(10));
    timer_.async_wait([this](error_code) { wait_for_empty(); });
  }

  std::shared_ptr<ServerShared> shared_;
  net::io_context io_;
  net::strand<net::io_context::executor_type> strand_;
  net::steady_timer timer_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::optional<net::posix::stream_descriptor> probes_;
  std::chrono::steady_clock::time_point drain_end_;
  bool told_ = false;  // Exchange::on_stop was called for what still ran
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(int fd, const std::string& host_port,
                                               ServerLimits limits, Handler handler,
                                               std::shared_ptr<TlsIdentity> tls, Gate gate) {
  auto server =
      std::make_unique<AsioServer>(limits, std::move(handler), std::move(tls), std::move(gate));
  const Result<void> open = fd >= 0 ? server->take(fd) : server->open(host_port);
  if (!open) return open.error();
  return Result<std::unique_ptr<Server>>(std::move(server));
}

}  // namespace holdfast::gateway
