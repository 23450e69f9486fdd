// Goal: input that claims to be gzip or deflate ends as a body within its bound, too long or
// broken, and in the same way however small the steps are. Method: the bytes as they are, and
// compressed by zlib.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "control/gateway/http/body_encoding.h"
#include "shared/base/check.h"

namespace {

using holdfast::gateway::BodyDecoder;
using State = BodyDecoder::State;

struct Decoded {
  State state = State::kIncomplete;
  std::string body;
};

Decoded decode(std::string_view bytes, bool gzip, std::size_t limit, std::size_t step) {
  BodyDecoder decoder(bytes, gzip, limit);
  Decoded out;
  for (std::size_t steps = 0; out.state == State::kIncomplete; ++steps) {
    CHECK(steps < 1'000'000);
    out.state = decoder.step(step);
  }
  out.body = decoder.take();
  CHECK(out.body.size() <= limit);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const bool gzip = (data[0] & 1) != 0;
  const std::size_t limit = std::size_t{data[1]} * 1'024;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Decoded whole = decode(bytes, gzip, limit, SIZE_MAX / 2);
  const Decoded slowly = decode(bytes, gzip, limit, data[0]);
  CHECK(whole.state == slowly.state);
  CHECK(whole.state != State::kDone || whole.body == slowly.body);

  std::string packed(compressBound(bytes.size()), '\0');
  uLongf length = packed.size();
  CHECK(compress(reinterpret_cast<Bytef*>(packed.data()), &length, data + 2, bytes.size()) == Z_OK);
  packed.resize(length);
  const Decoded back = decode(packed, false, bytes.size(), data[0]);
  CHECK(back.state == State::kDone && back.body == bytes);
  return 0;
}
