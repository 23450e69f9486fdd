#include "shared/pull/blob.h"

#include <sodium.h>

#include <algorithm>
#include <array>

#include "shared/base/ascii.h"
#include "shared/pull/hub_files.h"
#include "shared/pull/source.h"

namespace holdfast::pull {
namespace {

constexpr std::size_t kFilesMax = 2'000;
constexpr std::size_t kDigits = 64;
constexpr std::size_t kFolderDigits = 24;
constexpr std::string_view kSource = "blobs:";
constexpr std::string_view kModelFolder = "created/";

std::string sha256_digits(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
  std::string digits(2 * hash.size() + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), hash.data(), hash.size());
  digits.pop_back();
  return digits;
}

/// A blob that is a model by itself lies where it is: its format is read from its bytes.
BlobModel model_of_one(const NamedBlob& blob) {
  BlobModel made;
  PullFile file;
  file.path = made.model = blob_name(blob.digits);
  file.sha256 = blob.digits;
  made.files.push_back(std::move(file));
  made.folder = std::string(kBlobFolder);
  made.source = std::string(kSource) + blob.digits;
  return made;
}

Result<void> check_names(const std::vector<NamedBlob>& blobs) {
  if (blobs.empty() || blobs.size() > kFilesMax) {
    return Error{Errc::kInvalidRequest, std::to_string(blobs.size()) + " files, expected 1 to " +
                                            std::to_string(kFilesMax)};
  }
  for (const NamedBlob& blob : blobs) {
    if (is_plain_path(blob.name)) continue;
    return Error{Errc::kInvalidRequest,
                 "file \"" + blob.name.substr(0, 80) +
                     "\": expected a relative path of letters, digits and . _ - +"};
  }
  return {};
}

}  // namespace

std::optional<std::string> digest_digits(std::string_view digest) {
  if (!digest.starts_with("sha256:") && !digest.starts_with("sha256-")) return std::nullopt;
  digest.remove_prefix(7);
  if (!is_lower_hex(digest, kDigits)) return std::nullopt;
  return std::string(digest);
}

std::string blob_name(std::string_view digits) {
  return "sha256-" + std::string(digits);
}

Result<BlobModel> model_of_blobs(std::vector<NamedBlob> blobs) {
  const bool one = blobs.size() == 1 && !lower_ascii(blobs[0].name).ends_with(".safetensors");
  if (one) return model_of_one(blobs[0]);
  HOLDFAST_CHECKED(check_names(blobs));
  std::ranges::sort(blobs, {}, &NamedBlob::name);
  std::vector<HubFile> files;
  std::string list;
  for (const NamedBlob& blob : blobs) {
    files.push_back({blob.name, -1, blob.digits, {}});
    list += blob.name + "\n" + blob.digits + "\n";
  }
  HOLDFAST_TRY(const HubChoice chosen, choose_files(files, {}));
  BlobModel made;
  const std::string digits = sha256_digits(list);
  made.folder = std::string(kModelFolder) + digits.substr(0, kFolderDigits);
  made.source = std::string(kSource) + digits;
  made.model = chosen.model;
  for (const HubFile& file : chosen.files) {
    PullFile out;
    out.path = file.path;
    out.sha256 = file.sha256;
    made.files.push_back(std::move(out));
  }
  return made;
}

bool is_blob_source(std::string_view source) {
  return source.starts_with(kSource);
}

}  // namespace holdfast::pull
