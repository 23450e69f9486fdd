#include "worker/backend/opencl/device/program_cache.h"

#include <sodium.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "shared/base/bytes.h"
#include "shared/base/log.h"

namespace holdfast::opencl {
namespace {

namespace fs = std::filesystem;

// A file is this, the SHA-256 of the binary, and the binary.
constexpr char kMagic[8] = {'H', 'F', 'C', 'L', 'P', 'R', 'G', '1'};
constexpr std::size_t kHeadBytes = sizeof kMagic + crypto_hash_sha256_BYTES;

std::string digest(const std::string& bytes) {
  std::string out(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(out.data()),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return out;
}

}  // namespace

std::string cache_key(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += std::to_string(part.size()) + ":" + part;
  const std::string hash = digest(all);
  return to_hex(std::as_bytes(std::span(hash.data(), hash.size())));
}

std::string ProgramCache::path_of(const std::string& key) const {
  return folder_ + "/" + key + ".bin";
}

std::optional<std::string> ProgramCache::read(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(path_of(key), std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.size() <= kHeadBytes || text.compare(0, sizeof kMagic, kMagic, sizeof kMagic) != 0) {
    return std::nullopt;
  }
  std::string binary = text.substr(kHeadBytes);
  if (digest(binary) != text.substr(sizeof kMagic, crypto_hash_sha256_BYTES)) return std::nullopt;
  return binary;
}

void ProgramCache::write(const std::string& key, const std::string& binary) const {
  if (folder_.empty() || binary.empty()) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  static std::atomic<std::uint64_t> written = 0;  // equal devices may write one key at once
  const std::string temp_path =
      path_of(key) + "." + std::to_string(getpid()) + "." + std::to_string(++written);
  {
    std::ofstream file(temp_path, std::ios::binary | std::ios::trunc);
    file.write(kMagic, sizeof kMagic);
    file << digest(binary) << binary;
    file.close();
    if (file.good()) fs::rename(temp_path, path_of(key), failed);
    if (file.good() && !failed) return;
  }
  fs::remove(temp_path, failed);
  log::warn("a built program is not kept", {{"path", path_of(key)}});
}

}  // namespace holdfast::opencl
