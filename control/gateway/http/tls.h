#pragma once
// TLS 1.2 and 1.3 below a connection: the certificate of the gateway, and the stream that encrypts
// over an accepted socket. Includes Asio, but not OpenSSL.

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "shared/base/result.h"

namespace holdfast::gateway {

/// A TLS stream over a socket that it does not own. Runs on the socket's strand; one read and one
/// write at a time.
class TlsStream {
 public:
  using Done = std::function<void(const boost::system::error_code&, std::size_t)>;

  virtual ~TlsStream() = default;
  /// The result of a handshake. kClear: the peer speaks HTTP without TLS; the socket may still be
  /// written to.
  enum class Handshake : std::uint8_t { kTls, kClear, kNothing };
  virtual void handshake(std::function<void(Handshake)> done) = 0;
  virtual void read_some(boost::asio::mutable_buffer to, Done done) = 0;
  virtual void write_some(boost::asio::const_buffer from, Done done) = 0;
  /// Says that no more comes. Calls `done` when the peer has said so too, or cannot any more.
  virtual void shut(std::function<void()> done) = 0;
};

/// A certificate with its key, reloaded when its files change. Thread-safe.
class TlsIdentity {
 public:
  /// `cert`: PEM, the certificate first, then those that vouch for it; `key`: PEM without a
  /// passphrase. Fails with kUsage, naming the file and its fault. `look_every`: least time between
  /// two checks of the files, which are made when connections come.
  static Result<std::shared_ptr<TlsIdentity>> load(
      const std::string& cert, const std::string& key,
      std::chrono::milliseconds look_every = std::chrono::seconds(2));
  ~TlsIdentity();

  /// Returns the stream for a connection that was just accepted, with the newest valid certificate.
  std::unique_ptr<TlsStream> stream(boost::asio::ip::tcp::socket& socket);

 private:
  struct Loaded;
  TlsIdentity() = default;
  void look();

  std::string cert_, key_;
  std::chrono::milliseconds look_every_{};
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_{};
  std::string stamp_;  // of the files when last read, valid or not
  std::shared_ptr<Loaded> loaded_;
};

}  // namespace holdfast::gateway
