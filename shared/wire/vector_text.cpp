#include "shared/wire/vector_text.h"

#include <cstring>

#include "shared/base/base64.h"

namespace holdfast::wire {
namespace {

constexpr std::string_view kHead = "{\"embedding\":\"";
constexpr std::string_view kTail = "\"}";

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

}  // namespace

std::string vector_text(const std::vector<float>& vector) {
  const std::string_view bytes(reinterpret_cast<const char*>(vector.data()),
                               vector.size() * sizeof(float));
  return std::string(kHead) + to_base64(bytes) + std::string(kTail);
}

std::vector<float> read_vector(std::string_view extra) {
  std::vector<float> vector;
  if (!extra.starts_with(kHead) || !extra.ends_with(kTail)) return vector;
  extra.remove_prefix(kHead.size());
  extra.remove_suffix(kTail.size());
  const auto read = from_base64(extra);
  if (!read || read->size() % sizeof(float) != 0) return vector;
  const std::string& bytes = *read;
  vector.resize(bytes.size() / sizeof(float));
  if (!vector.empty()) std::memcpy(vector.data(), bytes.data(), bytes.size());
  return vector;
}

}  // namespace holdfast::wire
