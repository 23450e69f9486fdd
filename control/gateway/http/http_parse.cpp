#include "control/gateway/http/http_parse.h"

#include <boost/beast/http/parser.hpp>
#include <string>

#include "shared/base/check.h"

namespace holdfast::gateway {
namespace {

namespace http = boost::beast::http;

// Most bytes of a chunked body's framing (sizes, extensions, trailers) that is not yet a whole line
// or block.
constexpr std::size_t kFramingBytesMax = 8 * 1024;
constexpr std::size_t kEmptyLineBytesMax = 4;

struct Scan {
  std::size_t end = 0;  // one past the empty line; 0 = not there yet
  std::string_view problem;
};

/// Says what is wrong with the byte at `i`; empty if nothing is.
std::string_view problem_at(std::string_view bytes, std::size_t i) {
  const auto c = static_cast<unsigned char>(bytes[i]);
  const char before = i == 0 ? '\0' : bytes[i - 1];
  switch (c) {
    case '\n':
      return before != '\r' ? "a line ends in LF without CR" : "";
    case '\r':
      return i + 1 < bytes.size() && bytes[i + 1] != '\n' ? "CR without LF" : "";
    case ' ':
    case '\t':
      return before == '\n' ? "a header line begins with a space (folded header)" : "";
    default:
      return c < 0x20 || c == 0x7f ? "a control character in the head" : "";
  }
}

/// Bytes of empty lines before a request, which are allowed (RFC 9112, 2.2); some clients end a
/// body with one.
std::size_t empty_lines(std::string_view bytes) {
  std::size_t size = 0;
  while (size < kEmptyLineBytesMax && bytes.substr(size).starts_with("\r\n")) size += 2;
  return size;
}

/// True if the first line names a version of HTTP, be it one that is not spoken here.
bool names_version(std::string_view head) {
  return head.substr(0, head.find('\r')).find(" HTTP/") != std::string_view::npos;
}

struct HeadFault {
  int status;
  std::string text;
};

HeadFault head_fault(const boost::system::error_code& ec, std::string_view head,
                     std::uint64_t body_limit) {
  if (ec == http::error::body_limit) {
    return {413, "the body is longer than " + std::to_string(body_limit) + " bytes"};
  }
  if (ec == http::error::bad_version && names_version(head)) {
    return {505, "this server speaks HTTP/1.1 and HTTP/1.0"};
  }
  return {400, "malformed request head: " + ec.message()};
}

/// Scans bytes from `from` on for the end of the head and for what must not be in a head.
Scan scan_head(std::string_view bytes, std::size_t from) {
  for (std::size_t i = from; i < bytes.size(); ++i) {
    if (const auto problem = problem_at(bytes, i); !problem.empty()) return {0, problem};
    if (bytes[i] == '\n' && i >= 3 && bytes[i - 2] == '\n') return {i + 1, {}};
  }
  return {};
}

/// Reads the kind of body that the request line's path has.
BodyKind kind_of(std::string_view head) {
  constexpr std::string_view kFiles = "POST /v1/files";
  if (head.starts_with("POST /api/blobs/")) return BodyKind::kBlob;
  if (!head.starts_with(kFiles) || head.size() == kFiles.size()) return BodyKind::kShort;
  const char next = head[kFiles.size()];
  return next == ' ' || next == '?' ? BodyKind::kFile : BodyKind::kShort;
}

std::uint64_t limit_of(BodyKind kind, const ParseLimits& limits) {
  switch (kind) {
    case BodyKind::kShort:
      return limits.body_bytes;
    case BodyKind::kFile:
      return limits.upload_bytes;
    case BodyKind::kBlob:
      return limits.blob_bytes;
  }
  CHECK(false);
}

}  // namespace

struct RequestParser::Beast {
  /// A body as a text for Beast's parser. Unlike Beast's own string_body it takes memory for the
  /// whole length at once only where `whole` is set.
  struct TextBody {
    struct value_type {
      std::string text;
      bool whole = true;
    };
    class reader {
     public:
      template <bool kRequest, class Fields>
      reader(http::header<kRequest, Fields>&, value_type& body) : body_(body) {}
      void init(const boost::optional<std::uint64_t>& length, boost::system::error_code& ec) {
        if (length && body_.whole) body_.text.reserve(static_cast<std::size_t>(*length));
        ec = {};
      }
      template <class Buffers>
      std::size_t put(const Buffers& buffers, boost::system::error_code& ec) {
        std::size_t bytes = 0;
        for (auto at = boost::asio::buffer_sequence_begin(buffers);
             at != boost::asio::buffer_sequence_end(buffers); ++at) {
          const boost::asio::const_buffer part = *at;
          body_.text.append(static_cast<const char*>(part.data()), part.size());
          bytes += part.size();
        }
        ec = {};
        return bytes;
      }
      void finish(boost::system::error_code& ec) { ec = {}; }

     private:
      value_type& body_;
    };
  };
  http::request_parser<TextBody> parser;
};

RequestParser::RequestParser(ParseLimits limits) : limits_(limits) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

void RequestParser::fail(int status, std::string message) {
  state_ = State::kFailed;
  failure_status_ = status;
  failure_ = std::move(message);
  beast_.reset();
}

std::size_t RequestParser::feed(std::string_view bytes) {
  std::size_t used = 0;
  if (state_ == State::kHead) used = feed_head(bytes);
  if (state_ == State::kBody) used += feed_body(bytes.substr(used));
  return used;
}

std::size_t RequestParser::feed_head(std::string_view bytes) {
  const std::size_t skipped = scanned_ == 0 ? empty_lines(bytes) : 0;
  bytes.remove_prefix(skipped);
  const Scan scan = scan_head(bytes, scanned_);
  if (!scan.problem.empty()) {
    fail(400, "malformed request head: " + std::string(scan.problem));
    return 0;
  }
  const std::size_t size = scan.end != 0 ? scan.end : bytes.size();
  if (size > limits_.header_bytes) {
    const bool target = bytes.find('\n') == std::string_view::npos;
    fail(target ? 414 : 431,
         "the request head is longer than " + std::to_string(limits_.header_bytes) + " bytes");
    return 0;
  }
  if (scan.end == 0) {
    // The last byte may be a CR whose LF is still to come, so it is scanned again.
    scanned_ = bytes.size() > 1 ? bytes.size() - 1 : 0;
    return skipped;
  }
  parse_head(bytes.substr(0, scan.end));
  return state_ == State::kFailed ? 0 : skipped + scan.end;
}

void RequestParser::parse_head(std::string_view head) {
  beast_ = std::make_unique<Beast>();
  auto& parser = beast_->parser;
  parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes + 1));
  body_kind_ = kind_of(head);
  body_limit_ = limit_of(body_kind_, limits_);
  parser.body_limit(body_limit_);
  parser.get().body().whole = body_kind_ != BodyKind::kBlob;
  request_.body_limit = body_limit_;
  boost::system::error_code ec;
  parser.put(boost::asio::const_buffer(head.data(), head.size()), ec);
  if (ec) {
    const HeadFault fault = head_fault(ec, head, body_limit_);
    return fail(fault.status, fault.text);
  }
  const auto& message = parser.get();
  request_.method = std::string(message.method_string());
  request_.http11 = message.version() == 11;
  request_.keep_alive = parser.keep_alive();
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  if (!split_target({message.target().data(), message.target().size()}) || !check_framing()) return;
  if (parser.is_done()) return finish();
  state_ = State::kBody;
  parser.eager(true);
}

bool RequestParser::check_framing() {
  Framing framing;
  for (const Header& h : request_.headers) {
    if (!read_framing(h, framing)) return false;
  }
  const char* fault = fault_of(framing, request_.http11);
  if (fault != nullptr) fail(400, fault);
  return state_ != State::kFailed;
}

const char* RequestParser::fault_of(const Framing& framing, bool http11) {
  if (framing.length && framing.transfer) {
    return "Content-Length and Transfer-Encoding in one request";
  }
  if (framing.transfer && !http11) return "Transfer-Encoding in an HTTP/1.0 request";
  if (framing.hosts > 1 || (framing.hosts == 0 && http11)) {
    return "HTTP/1.1 wants exactly one Host header";
  }
  return nullptr;
}

bool RequestParser::read_framing(const Header& h, Framing& framing) {
  if (equal_ignoring_case(h.first, "host")) ++framing.hosts;
  if (equal_ignoring_case(h.first, "content-length")) framing.length = true;
  if (equal_ignoring_case(h.first, "transfer-encoding")) {
    framing.transfer = true;
    if (!equal_ignoring_case(h.second, "chunked")) {
      fail(501, "Transfer-Encoding: only \"chunked\" is understood");
      return false;
    }
  }
  if (equal_ignoring_case(h.first, "expect")) {
    if (!equal_ignoring_case(h.second, "100-continue")) {
      fail(417, "Expect: only \"100-continue\" is understood");
      return false;
    }
    request_.expects_continue = request_.http11;
  }
  return true;
}

bool RequestParser::split_target(std::string_view target) {
  // The absolute form, as proxies send it: http://host/path
  if (target.starts_with("http://") || target.starts_with("https://")) {
    request_.absolute_form = true;
    const std::size_t slash = target.find('/', target.find("//") + 2);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/') && target != "*") {
    fail(400, "the request target is not a path");
    return false;
  }
  const std::size_t mark = target.find('?');
  request_.path = std::string(target.substr(0, mark));
  return mark == std::string_view::npos || read_query(target.substr(mark + 1));
}

bool RequestParser::read_query(std::string_view rest) {
  while (!rest.empty()) {
    const std::size_t amp = rest.find('&');
    const std::string_view pair = rest.substr(0, amp);
    rest = amp == std::string_view::npos ? "" : rest.substr(amp + 1);
    if (pair.empty()) continue;
    const std::size_t eq = pair.find('=');
    const auto name = percent_decode(pair.substr(0, eq), true);
    const auto value =
        percent_decode(eq == std::string_view::npos ? "" : pair.substr(eq + 1), true);
    if (!name || !value) {
      fail(400, "the query has a % that is not followed by two hexadecimal digits");
      return false;
    }
    request_.query.emplace_back(*name, *value);
  }
  return true;
}

std::size_t RequestParser::feed_body(std::string_view bytes) {
  auto& parser = beast_->parser;
  std::size_t used = 0;
  while (used < bytes.size() && !parser.is_done()) {
    boost::system::error_code ec;
    const std::string_view rest = bytes.substr(used);
    const std::size_t n = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
    used += n;
    if (ec == http::error::need_more) {
      if (rest.size() - n > kFramingBytesMax) fail(400, "the chunked body has an endless line");
      return used;
    }
    if (ec == http::error::body_limit) {
      fail(413, "the body is longer than " + std::to_string(body_limit_) + " bytes");
      return used;
    }
    if (ec) {
      fail(400, "malformed body: " + ec.message());
      return used;
    }
    if (n == 0) return used;
  }
  if (parser.is_done()) finish();
  return used;
}

std::string RequestParser::take_body() {
  return std::exchange(beast_ == nullptr ? request_.body : beast_->parser.get().body().text, {});
}

void RequestParser::finish() {
  request_.body = std::move(beast_->parser.get().body().text);
  beast_.reset();
  state_ = State::kDone;
}

}  // namespace holdfast::gateway
