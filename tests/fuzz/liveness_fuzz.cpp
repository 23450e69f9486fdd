// Goal: no datagram crashes the reader, and what it accepts is what would be written. Method:
// libFuzzer feeds the bytes as they are, and once more with the tag that is right for them, as
// nothing would get behind the tag otherwise.

#include <sodium.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "shared/base/check.h"
#include "shared/wire/liveness.h"

namespace {

using namespace holdfast;

constexpr std::size_t kTagBytes = 32;

void check(const std::string& bytes, const wire::LivenessKey& key) {
  (void)wire::session_of_node_datagram(bytes);
  const auto node = wire::open_node_datagram(bytes, key);
  if (node) CHECK(wire::seal(*node, key) == bytes);
  const auto daemon = wire::open_daemon_datagram(bytes, key);
  if (daemon) CHECK(wire::seal(*daemon, key) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const wire::LivenessKey key{1, 2, 3};
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes, key);
  unsigned char tag[kTagBytes];
  CHECK(crypto_generichash(tag, sizeof tag, data, size, key.data(), key.size()) == 0);
  bytes.append(reinterpret_cast<const char*>(tag), sizeof tag);
  check(bytes, key);
  return 0;
}
