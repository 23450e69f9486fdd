// Goal: no frame crashes the codec or makes it take memory out of proportion, and what it accepts
// it can also write. Method: libFuzzer feeds the content of a frame of every type (first byte: the
// type), and once more the bytes as they are, header included.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/check.h"
#include "shared/wire/frame.h"

namespace {

using namespace holdfast;

void check(std::string_view frame) {
  const Result<wire::Message> message = wire::decode(frame);
  if (!message.has_value()) {
    CHECK(!message.error().what.empty());
    return;
  }
  const std::string written = wire::encode(message.value());
  const Result<wire::Message> again = wire::decode(written);
  CHECK(again.has_value());
  CHECK(wire::encode(again.value()) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  check(input);
  if (size < 1) return 0;
  const std::size_t length = size - 1;
  std::string frame = "HFST";
  frame += {1, 0, static_cast<char>(data[0]), 0};
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<char>(length >> (8 * i)));
  frame.append(4, '\0');
  frame.append(input, 1);
  check(frame);
  return 0;
}
