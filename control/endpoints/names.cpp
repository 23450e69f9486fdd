#include "control/endpoints/names.h"

#include <sodium.h>

#include <array>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/wire/frame.h"

namespace holdfast::daemon {

std::string new_request_id(std::int64_t wall_ms) {
  constexpr char kDigits[] = "0123456789abcdefghjkmnpqrstvwxyz";
  std::string id(26, '0');
  auto time = static_cast<std::uint64_t>(wall_ms);
  for (std::size_t i = 10; i-- > 0; time >>= 5) id[i] = kDigits[time & 31];
  for (std::size_t i = 10; i < id.size(); ++i) id[i] = kDigits[randombytes_uniform(32)];
  return id;
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  randombytes_buf(&value, sizeof value);
  return value;
}

std::string new_secret() {
  std::string bytes(32, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

Result<void> make_secrets(store::Store& store) {
  for (const char* name : {"ids", "prefix", "curve"}) {
    HOLDFAST_CHECKED(store.make_secret(name, new_secret()));
  }
  return {};
}

std::string content_hash(std::string_view bytes) {
  std::array<std::byte, 16> hash{};
  CHECK(crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                           reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                           nullptr, 0) == 0);
  return to_hex(hash);
}

std::string body_hash(wire::Submit& submit) {
  // Members that are not of the body are moved out for a moment: a copy would copy the prompts.
  const std::uint64_t tag = std::exchange(submit.tag, 0);
  const std::uint64_t seed = submit.sampling.seed;
  std::string id = std::exchange(submit.request_id, {});
  std::string key = std::exchange(submit.idem_key, {});
  // Older clients leave the default tenant out.
  const bool of_default = submit.tenant == "default";
  if (of_default) submit.tenant.clear();
  std::string given = std::exchange(submit.body_hash, {});
  std::string api_key = std::exchange(submit.api_key, {});
  const auto at_once = std::exchange(submit.key_max_requests, {});
  const auto a_minute = std::exchange(submit.key_requests_per_minute, {});
  auto options = std::exchange(submit.given, {});  // older clients do not say them
  if (!submit.seed_given) submit.sampling.seed = 0;
  const std::string frame = wire::encode(submit);
  submit.tag = tag;
  submit.sampling.seed = seed;
  submit.request_id = std::move(id);
  submit.idem_key = std::move(key);
  if (of_default) submit.tenant = "default";
  submit.body_hash = std::move(given);
  submit.given = std::move(options);
  submit.api_key = std::move(api_key);
  submit.key_max_requests = at_once;
  submit.key_requests_per_minute = a_minute;
  return content_hash(frame);
}

}  // namespace holdfast::daemon
