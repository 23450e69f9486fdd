#pragma once
// TLS 1.2 and 1.3 under a connection: the certificate of the gateway, and the stream that encrypts
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

/// Over a socket that it does not own. On the socket's strand; one read and one write at a time.
class TlsStream {
 public:
  using Done = std::function<void(const boost::system::error_code&, std::size_t)>;

  virtual ~TlsStream() = default;
  /// kClear: the peer speaks HTTP without TLS; the socket may still be written to.
  enum class Met : std::uint8_t { kTls, kClear, kNothing };
  virtual void handshake(std::function<void(Met)> done) = 0;
  virtual void read_some(boost::asio::mutable_buffer to, Done done) = 0;
  virtual void write_some(boost::asio::const_buffer from, Done done) = 0;
  /// Says that no more comes. `done` when the peer has said so too, or cannot any more.
  virtual void shut(std::function<void()> done) = 0;
};

/// A certificate with its key, read again when its files change. Thread-safe.
class TlsIdentity {
 public:
  /// `cert`: PEM, the certificate first, then those that vouch for it; `key`: PEM without a
  /// passphrase. kUsage, naming the file and what is wrong with it. `look_every`: how often the
  /// files are looked at, at most, when connections come.
  static Result<std::shared_ptr<TlsIdentity>> load(
      const std::string& cert, const std::string& key,
      std::chrono::milliseconds look_every = std::chrono::seconds(2));
  ~TlsIdentity();

  /// For a connection that was just accepted.
  std::unique_ptr<TlsStream> stream(boost::asio::ip::tcp::socket& socket);

 private:
  struct Loaded;
  TlsIdentity() = default;
  void look();

  std::string cert_, key_;
  std::chrono::milliseconds look_every_{};
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_{};
  std::string stamp_;  // of the files when they were last read, well or not
  std::shared_ptr<Loaded> loaded_;
};

}  // namespace holdfast::gateway
