#include "control/gateway/webhooks/webhook_post.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "control/gateway/common/name_lookup.h"
#include "shared/base/version.h"

namespace holdfast::gateway {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;

constexpr std::chrono::milliseconds kLook{100};  // interval of asking `stopping`
constexpr std::chrono::milliseconds kLookupLimit{3'000};
constexpr std::uint32_t kHeaderBytesMax = 16 * 1024;
constexpr std::uint64_t kAnswerBytesMax = 64 * 1024;

/// Runs one asynchronous operation to its end; the stream's own deadline ends those that hang.
template <class Start>
error_code finish(net::io_context& io, beast::tcp_stream& tcp, const WebhookPost& post,
                  const Start& start) {
  error_code result = net::error::would_block;
  start([&result](error_code ec, auto&&...) { result = ec; });
  io.restart();
  while (result == net::error::would_block) {
    io.run_for(kLook);
    if (post.stopping && post.stopping()) tcp.cancel();
  }
  return result;
}

std::string because(const char* what, const error_code& ec) {
  return std::string(what) + ": " + ec.message();
}

/// Returns the addresses of the host that may be used. Empty: `error` says why.
std::vector<tcp::endpoint> addresses(const WebhookPost& post, std::string* error) {
  NamesFound found;
  if (post.url.numeric) {
    found.addresses = {post.url.host};
  } else {
    found = name_lookup().find(post.url.host, std::min(post.limit, kLookupLimit), post.stopping);
  }
  *error = found.error;
  std::vector<tcp::endpoint> out;
  for (const std::string& text : found.addresses) {
    if (!post.may_be_private && !client::is_public_address(text)) {
      *error = post.url.host + " is " + text + ", an address that is not public: refused";
      continue;
    }
    error_code ec;
    const auto address = net::ip::make_address(text, ec);
    if (!ec) out.emplace_back(address, post.url.port);
  }
  if (out.empty() && error->empty()) *error = post.url.host + " has no address";
  return out;
}

template <class Stream>
WebhookAnswer converse(net::io_context& io, Stream& stream, const WebhookPost& post) {
  beast::tcp_stream& tcp = beast::get_lowest_layer(stream);
  http::request<http::string_body> request{http::verb::post, post.url.path, 11};
  const bool usual = post.url.port == (post.url.https ? 443 : 80);
  const std::string name =
      post.url.host.find(':') == std::string::npos ? post.url.host : "[" + post.url.host + "]";
  request.set(http::field::host, usual ? name : name + ":" + std::to_string(post.url.port));
  request.set(http::field::user_agent, std::string("holdfast/") + kVersion);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  for (const Header& header : post.headers) request.set(header.first, header.second);
  request.body() = post.body;
  request.prepare_payload();
  error_code ec =
      finish(io, tcp, post, [&](auto done) { http::async_write(stream, request, done); });
  if (ec) return {0, because("send", ec)};
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.header_limit(kHeaderBytesMax);
  parser.body_limit(kAnswerBytesMax);
  ec = finish(io, tcp, post,
              [&](auto done) { http::async_read_header(stream, buffer, parser, done); });
  if (ec) return {0, because("answer", ec)};
  const int status = parser.get().result_int();
  // The body is not used, and a body that breaks off or is too long changes nothing.
  (void)finish(io, tcp, post, [&](auto done) { http::async_read(stream, buffer, parser, done); });
  return {status, {}};
}

WebhookAnswer converse_tls(net::io_context& io, beast::tcp_stream tcp, const WebhookPost& post) {
  net::ssl::context context(net::ssl::context::tls_client);
  error_code ec;
  context.set_default_verify_paths(ec);
  if (ec) return {0, because("certificates of this machine", ec)};
  context.set_verify_mode(net::ssl::verify_peer);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  beast::ssl_stream<beast::tcp_stream> stream(std::move(tcp), context);
  if (!post.url.numeric &&
      SSL_set_tlsext_host_name(stream.native_handle(), post.url.host.c_str()) != 1) {
    return {0, "the host's name does not fit TLS"};
  }
  stream.set_verify_callback(net::ssl::host_name_verification(post.url.host), ec);
  if (ec) return {0, because("verification", ec)};
  ec = finish(io, beast::get_lowest_layer(stream), post,
              [&](auto done) { stream.async_handshake(net::ssl::stream_base::client, done); });
  if (ec) return {0, because("TLS", ec)};
  return converse(io, stream, post);
}

}  // namespace

WebhookAnswer send_webhook(const WebhookPost& post) {
  if (!post.url.https && !post.may_be_private) return {0, "plain HTTP is for private targets"};
  std::string error;
  const auto begin = std::chrono::steady_clock::now();
  const auto endpoints = addresses(post, &error);
  if (endpoints.empty()) return {0, error};
  net::io_context io;
  beast::tcp_stream stream(io);
  stream.expires_at(begin + post.limit);
  error_code ec;
  for (const tcp::endpoint& endpoint : endpoints) {
    ec = finish(io, stream, post, [&](auto done) { stream.async_connect(endpoint, done); });
    if (!ec || ec == beast::error::timeout) break;
    stream.socket().close();
  }
  if (ec) return {0, because("connect", ec)};
  if (post.url.https) return converse_tls(io, std::move(stream), post);
  return converse(io, stream, post);
}

}  // namespace holdfast::gateway
