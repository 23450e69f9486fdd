#pragma once
// Bytes of a connection to one HTTP request. Pure and incremental: it knows no socket and no clock,
// so the same code is tested byte by byte and fuzzed. Boost.Beast parses the grammar.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "control/gateway/http/http_types.h"

namespace holdfast::gateway {

/// The most bytes of a request. A longer head is answered with 431 or 414, a longer body with 413.
struct ParseLimits {
  std::size_t header_bytes = 8 * 1024;
  std::size_t body_bytes = 1024 * 1024;
  std::size_t upload_bytes = 64 * 1024 * 1024;  // of POST /v1/files
  std::uint64_t blob_bytes = 1ULL << 40;        // of POST /api/blobs/DIGEST
};

/// The ways in which a body is received.
enum class BodyKind : std::uint8_t {
  kShort,  // with its head, as one text
  kFile,   // as one text that takes much memory: it waits for a slot
  kBlob,   // in parts, after the head (Exchange::receive_body): no memory would hold it
};

/// An incremental parser. Stricter than Beast where leniency helps request smuggling: no folded
/// header lines, no bare LF or CR, no other control characters, no Transfer-Encoding but "chunked"
/// and never together with Content-Length, exactly one Host.
class RequestParser {
 public:
  enum class State { kHead, kBody, kDone, kFailed };

  explicit RequestParser(ParseLimits limits);
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  /// Takes as many of `bytes` as it can and returns how many. Offer the rest again together with
  /// what comes next. After kDone and kFailed it takes nothing.
  std::size_t feed(std::string_view bytes);

  State state() const { return state_; }
  /// How the body is received. Valid from kBody on.
  BodyKind body_kind() const { return body_kind_; }
  /// The request: its head from kBody on, its body from kDone on.
  Request& request() { return request_; }
  /// Takes the bytes of the body that were parsed since the last call. Valid from kBody on.
  std::string take_body();
  /// The status to answer before closing. Valid in kFailed.
  int failure_status() const { return failure_status_; }
  const std::string& failure() const { return failure_; }

 private:
  struct Beast;
  void fail(int status, std::string message);
  std::size_t feed_head(std::string_view bytes);
  std::size_t feed_body(std::string_view bytes);
  void parse_head(std::string_view head);
  /// The headers that say where the request ends.
  struct Framing {
    int hosts = 0;
    bool length = false;
    bool transfer = false;
  };
  bool check_framing();
  bool read_framing(const Header& h, Framing& framing);
  static const char* fault_of(const Framing& framing, bool http11);
  bool split_target(std::string_view target);
  bool read_query(std::string_view rest);
  void finish();

  ParseLimits limits_;
  BodyKind body_kind_ = BodyKind::kShort;
  std::uint64_t body_limit_ = 0;
  State state_ = State::kHead;
  std::size_t scanned_ = 0;  // bytes of the head already checked
  Request request_;
  int failure_status_ = 0;
  std::string failure_;
  std::unique_ptr<Beast> beast_;
};

}  // namespace holdfast::gateway
