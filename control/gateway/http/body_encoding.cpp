#include "control/gateway/http/body_encoding.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "control/gateway/http/errors.h"

namespace holdfast::gateway {
namespace {

constexpr std::size_t kChunkBytes = 64 * 1024;
constexpr std::size_t kTurnBytes = 1024 * 1024;  // decoded before others have their turn
constexpr int kWindowBits = 15;
constexpr int kGzip = 16;  // zlib's flag for gzip

enum class Encoding { kNone, kGzip, kDeflate, kUnknown };

Encoding encoding_from_name(std::string_view name) {
  if (name.empty() || equal_ignoring_case(name, "identity")) return Encoding::kNone;
  if (equal_ignoring_case(name, "gzip") || equal_ignoring_case(name, "x-gzip")) {
    return Encoding::kGzip;
  }
  return equal_ignoring_case(name, "deflate") ? Encoding::kDeflate : Encoding::kUnknown;
}

/// Returns the encoding if there is one; several, in one header or more, are not supported.
Encoding encoding_of(const Request& request) {
  Encoding found = Encoding::kNone;
  for (const Header& header : request.headers) {
    if (!equal_ignoring_case(header.first, "Content-Encoding")) continue;
    for (std::string_view rest = header.second; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const Encoding one = encoding_from_name(trimmed(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (one == Encoding::kNone) continue;
      if (found != Encoding::kNone) return Encoding::kUnknown;
      found = one;
    }
  }
  return found;
}

/// Deflate should have zlib's header; some clients send it without.
bool has_zlib_header(std::string_view bytes) {
  if (bytes.size() < 2) return true;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const auto second = static_cast<unsigned char>(bytes[1]);
  return (first & 0x0f) == Z_DEFLATED && (first * 256 + second) % 31 == 0;
}

Response not_understood() {
  Response response = error_response(
      415, "Content-Encoding: one of gzip and deflate is understood; send the body as it is");
  response.headers.emplace_back("Accept-Encoding", "gzip, deflate");
  return response;
}

struct Decoding {
  Decoding(const ExchangePtr& of, bool gzip, std::function<void()> next)
      : exchange(of),
        decoder(of->request().body, gzip, of->request().body_limit),
        then(std::move(next)) {}
  const ExchangePtr exchange;
  BodyDecoder decoder;
  const std::function<void()> then;
};

void go_on(const std::shared_ptr<Decoding>& decoding) {
  const ExchangePtr& exchange = decoding->exchange;
  const std::size_t limit = exchange->request().body_limit;
  switch (decoding->decoder.step(kTurnBytes)) {
    case BodyDecoder::State::kIncomplete:
      return exchange->post([decoding] { go_on(decoding); });
    case BodyDecoder::State::kTooLong:
      return exchange->respond(error_response(
          413, "the decoded body is longer than " + std::to_string(limit) + " bytes"));
    case BodyDecoder::State::kBroken:
      return exchange->respond(
          error_response(400, "the body is not what its Content-Encoding says, or is cut off"));
    case BodyDecoder::State::kDone:
      break;
  }
  exchange->set_body(decoding->decoder.take());
  decoding->then();
}

}  // namespace

struct BodyDecoder::Stream {
  z_stream z{};
  bool open = false;
  ~Stream() {
    if (open) inflateEnd(&z);
  }
};

BodyDecoder::BodyDecoder(std::string_view encoded, bool gzip, std::size_t limit)
    : encoded_(encoded), limit_(limit), gzip_(gzip), stream_(std::make_unique<Stream>()) {
  const int bits = gzip                       ? kWindowBits + kGzip
                   : has_zlib_header(encoded) ? kWindowBits
                                              : -kWindowBits;
  z_stream& z = stream_->z;
  // zlib only reads through this pointer.
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(encoded_.data()));
  z.avail_in = static_cast<uInt>(encoded_.size());
  if (inflateInit2(&z, bits) != Z_OK) throw std::bad_alloc();
  stream_->open = true;
}

BodyDecoder::~BodyDecoder() = default;

BodyDecoder::State BodyDecoder::fail() {
  return state_ = State::kBroken;
}

BodyDecoder::State BodyDecoder::append(const char* bytes, std::size_t size) {
  if (size > limit_ - body_.size()) return state_ = State::kTooLong;
  const std::size_t needed = body_.size() + size;
  if (needed > body_.capacity()) body_.reserve(std::min(limit_, 2 * needed));
  body_.append(bytes, size);
  return state_;
}

/// Ends one stream: another gzip member may follow, and nothing else.
BodyDecoder::State BodyDecoder::ended() {
  z_stream& z = stream_->z;
  if (z.avail_in == 0) return state_ = State::kDone;
  return gzip_ && inflateReset(&z) == Z_OK ? state_ : fail();
}

BodyDecoder::State BodyDecoder::step(std::size_t bytes) {
  std::array<char, kChunkBytes> chunk;
  z_stream& z = stream_->z;
  // A member that makes nothing has a cost, too.
  for (std::size_t made = 0; state_ == State::kIncomplete && made <= bytes;) {
    z.next_out = reinterpret_cast<Bytef*>(chunk.data());
    z.avail_out = kChunkBytes;
    const uInt before = z.avail_in;
    const int status = inflate(&z, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END) return fail();
    const std::size_t size = kChunkBytes - z.avail_out;
    if (append(chunk.data(), size) == State::kTooLong) break;
    made += size + (before - z.avail_in) + 1;
    if (status == Z_STREAM_END && ended() == State::kIncomplete) continue;
    // All input was read without reaching the end.
    if (status == Z_OK && z.avail_in == 0 && z.avail_out > 0) return fail();
  }
  return state_;
}

bool has_encoding(const Request& request) {
  return encoding_of(request) != Encoding::kNone;
}

bool is_encoded(const Request& request) {
  return !request.body.empty() && has_encoding(request);
}

void decode_body(const ExchangePtr& exchange, std::function<void()> then) {
  const Encoding encoding = encoding_of(exchange->request());
  if (encoding == Encoding::kUnknown) return exchange->respond(not_understood());
  go_on(std::make_shared<Decoding>(exchange, encoding == Encoding::kGzip, std::move(then)));
}

}  // namespace holdfast::gateway
