#pragma once
// Bodies with a Content-Encoding (gzip, deflate). They are decoded after the caller is known,
// within the bound of the body that results.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "control/gateway/http/exchange.h"

namespace holdfast::gateway {

/// Decodes gzip (also with several members), zlib and raw deflate, step by step. Not thread-safe.
class BodyDecoder {
 public:
  enum class State { kIncomplete, kDone, kBroken, kTooLong };

  /// `encoded` must outlive the decoder. It makes at most `limit` bytes.
  BodyDecoder(std::string_view encoded, bool gzip, std::size_t limit);
  ~BodyDecoder();
  BodyDecoder(const BodyDecoder&) = delete;

  /// Decodes about `bytes` more. All states but kIncomplete are final.
  State step(std::size_t bytes);
  /// Returns the body; valid once after kDone.
  std::string take() { return std::move(body_); }

 private:
  struct Stream;
  State append(const char* bytes, std::size_t size);
  State ended();
  State fail();

  const std::string_view encoded_;
  const std::size_t limit_;
  const bool gzip_;
  std::unique_ptr<Stream> stream_;
  std::string body_;
  State state_ = State::kIncomplete;
};

/// True if the body has a Content-Encoding.
bool has_encoding(const Request& request);
/// True if the body must be decoded before it can be read.
bool is_encoded(const Request& request);

/// Decodes the body and runs `then`, or answers: 415 for an unknown encoding, 413 for a body that
/// would be too long, 400 for a broken one. A long body is decoded in steps, so that other
/// connections have their turn. Runs on the exchange's strand.
void decode_body(const ExchangePtr& exchange, std::function<void()> then);

}  // namespace holdfast::gateway
