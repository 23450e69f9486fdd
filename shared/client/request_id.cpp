#include <sys/random.h>

#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/client/client.h"

namespace holdfast::client {

// The layout of a ULID: 48 bits of Unix milliseconds, 80 random bits, five bits a character.
std::string new_request_id() {
  static constexpr char kAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
  unsigned char random[16];
  CHECK(getrandom(random, sizeof(random), 0) == static_cast<ssize_t>(sizeof(random)));
  std::string id(26, '0');
  auto time = static_cast<std::uint64_t>(system_clock().wall_ms());
  for (int i = 9; i >= 0; --i, time >>= 5) id[static_cast<std::size_t>(i)] = kAlphabet[time & 31];
  for (std::size_t i = 0; i < 16; ++i) id[10 + i] = kAlphabet[random[i] & 31];
  return id;
}

}  // namespace holdfast::client
