#include "control/gateway/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "shared/base/log.h"

namespace holdfast::gateway {

namespace net = boost::asio;
using boost::system::error_code;

namespace {

/// Returns OpenSSL's error and empties its queue.
std::string reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? "unknown reason" : text;
}

Result<void> check_readable(const char* flag, const std::string& path) {
  struct stat found {};
  FILE* file = stat(path.c_str(), &found) == 0 ? std::fopen(path.c_str(), "rb") : nullptr;
  if (file == nullptr) {
    return Error{Errc::kUsage,
                 flag + (" " + path) + ": cannot be read: " + std::string(std::strerror(errno))};
  }
  std::fclose(file);
  if (S_ISREG(found.st_mode)) return {};
  return Error{Errc::kUsage, flag + (" " + path) + ": not a file"};
}

/// Returns a text that changes whenever one of the files does.
std::string stamp_of(const std::string& cert, const std::string& key) {
  std::string out;
  for (const std::string& path : {cert, key}) {
    struct stat found {};
    if (stat(path.c_str(), &found) != 0) return "";
    for (const std::int64_t part :
         {static_cast<std::int64_t>(found.st_ino), static_cast<std::int64_t>(found.st_size),
          static_cast<std::int64_t>(found.st_mtim.tv_sec),
          static_cast<std::int64_t>(found.st_mtim.tv_nsec)}) {
      out += std::to_string(part) + " ";
    }
  }
  return out;
}

using Context = std::shared_ptr<net::ssl::context>;

Result<Context> read_identity(const std::string& cert, const std::string& key) {
  HOLDFAST_CHECKED(check_readable("--tls-cert", cert));
  HOLDFAST_CHECKED(check_readable("--tls-key", key));
  ERR_clear_error();
  auto context = std::make_shared<net::ssl::context>(net::ssl::context::tls_server);
  SSL_CTX* ctx = context->native_handle();
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  // Only ciphers of TLS 1.2 with forward secrecy and authenticated encryption. TLS 1.3 has no
  // others.
  if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!PSK") != 1) {
    return Error{Errc::kInternal, "TLS: " + reason() + ": no cipher with ECDHE and AEAD is there"};
  }
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
  // Without this OpenSSL would ask at the terminal.
  SSL_CTX_set_default_passwd_cb(ctx, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_certificate_chain_file(ctx, cert.c_str()) != 1) {
    return Error{Errc::kUsage, "--tls-cert " + cert + ": " + reason() +
                                   "; expected PEM: the certificate, then those that vouch for it"};
  }
  // This also fails when the key is valid but belongs to another certificate.
  if (SSL_CTX_use_PrivateKey_file(ctx, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Error{Errc::kUsage, "--tls-key " + key + ": " + reason() +
                                   "; expected PEM without a passphrase: the key of --tls-cert " +
                                   cert};
  }
  const X509* certificate = SSL_CTX_get0_certificate(ctx);
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    log::warn("the certificate's time is over", {{"tls_cert", cert}});
  }
  return context;
}

class AsioTlsStream final : public TlsStream {
 public:
  AsioTlsStream(net::ip::tcp::socket& socket, Context context)
      : context_(std::move(context)), stream_(socket, *context_) {}

  void handshake(std::function<void(Handshake)> done) override {
    stream_.async_handshake(
        net::ssl::stream_base::server, [done = std::move(done)](const error_code& ec) {
          if (!ec) return done(Handshake::kTls);
          const bool ssl = ec.category() == net::error::get_ssl_category();
          const bool clear =
              ssl && ERR_GET_REASON(static_cast<unsigned long>(ec.value())) == SSL_R_HTTP_REQUEST;
          done(clear ? Handshake::kClear : Handshake::kNothing);
        });
  }
  void read_some(net::mutable_buffer to, Done done) override {
    stream_.async_read_some(to, std::move(done));
  }
  void write_some(net::const_buffer from, Done done) override {
    stream_.async_write_some(from, std::move(done));
  }
  void shut(std::function<void()> done) override {
    stream_.async_shutdown([done = std::move(done)](const error_code&) { done(); });
  }

 private:
  Context context_;  // as it was when the connection came
  net::ssl::stream<net::ip::tcp::socket&> stream_;
};

}  // namespace

struct TlsIdentity::Loaded {
  Context context;
};

TlsIdentity::~TlsIdentity() = default;

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::load(const std::string& cert,
                                                       const std::string& key,
                                                       std::chrono::milliseconds look_every) {
  std::shared_ptr<TlsIdentity> out(new TlsIdentity);
  out->cert_ = cert;
  out->key_ = key;
  out->look_every_ = look_every;
  out->looked_ = std::chrono::steady_clock::now();
  out->stamp_ = stamp_of(cert, key);
  HOLDFAST_TRY(Context context, read_identity(cert, key));
  out->loaded_ = std::make_shared<Loaded>(Loaded{std::move(context)});
  return out;
}

/// Loads the files if they changed. The caller must hold mutex_. A pair that is half written does
/// not fit: the old one stays until it does.
void TlsIdentity::look() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < look_every_) return;
  looked_ = now;
  std::string stamp = stamp_of(cert_, key_);
  if (stamp == stamp_) return;
  stamp_ = std::move(stamp);
  auto context = read_identity(cert_, key_);
  if (!context) {
    log::error("new certificate not taken, the old one stays", {{"why", context.error().what}});
    return;
  }
  loaded_ = std::make_shared<Loaded>(Loaded{std::move(context).value()});
  log::info("new certificate", {{"tls_cert", cert_}});
}

std::unique_ptr<TlsStream> TlsIdentity::stream(net::ip::tcp::socket& socket) {
  const std::lock_guard lock(mutex_);
  look();
  return std::make_unique<AsioTlsStream>(socket, loaded_->context);
}

}  // namespace holdfast::gateway
