#include "control/ingress/inspect.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/gguf/gguf.h"
#include "shared/plan/plan.h"
#include "shared/text/tokenizer.h"

namespace holdfast::ingress {
namespace {

struct FileTime {
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileTime&) const = default;
};

Error io_error(const std::string& path) {
  return {Errc::kIo, path + ": " + std::strerror(errno)};
}

Result<FileTime> stat_file(const std::string& path) {
  struct stat st = {};
  if (stat(path.c_str(), &st) != 0) return io_error(path);
  if (!S_ISREG(st.st_mode)) return Error{Errc::kFileInvalid, path + ": not a regular file"};
  if (st.st_size == 0) return Error{Errc::kFileInvalid, path + ": the file is empty"};
  return FileTime{st.st_size, st.st_mtim.tv_sec * 1'000'000'000LL + st.st_mtim.tv_nsec};
}

Result<std::string> sha256_of(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(path);
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<unsigned char> buffer(1 << 20);
  ssize_t n = 0;
  do {
    n = read(fd, buffer.data(), buffer.size());
    if (n > 0) crypto_hash_sha256_update(&state, buffer.data(), static_cast<std::size_t>(n));
  } while (n > 0 || (n < 0 && errno == EINTR));
  const Error error = io_error(path);
  close(fd);
  if (n < 0) return error;
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state, digest);
  return to_hex(ByteSpan(reinterpret_cast<const std::byte*>(digest), sizeof(digest)));
}

Result<wire::Inspected> read_all(const std::string& path) {
  wire::Inspected out;
  HF_TRY(const FileTime before, stat_file(path));
  HF_TRY(const auto file, gguf::File::open(path));
  HF_TRY(const plan::ModelShape shape, plan::read_shape(*file));
  out.shape = plan::shape_to_json(shape);
  if (shape.has_tokenizer) {
    HF_TRY(out.tokenizer, plan::tokenizer_blob(*file));
    HF_TRY(const auto blob, gguf::File::from_bytes(out.tokenizer, path));
    HF_TRY(const auto tokenizer, text::Tokenizer::load(*blob));
    out.pieces = text::encode_pieces(*tokenizer);
  }
  HF_TRY(out.model_sha, sha256_of(path));
  HF_TRY(const FileTime after, stat_file(path));
  if (before != after) {
    return Error{Errc::kFileInvalid, path + ": changed while it was read; try again"};
  }
  out.size = after.size;
  out.mtime_ns = after.mtime_ns;
  out.ok = true;
  return out;
}

}  // namespace

wire::Inspected refused_file(const Error& error) {
  wire::Inspected refused;
  refused.refusal.code = error.code;
  refused.refusal.message = error.what;
  return refused;
}

wire::Inspected inspect_file(const std::string& path) {
  Result<wire::Inspected> read = read_all(path);
  return read.has_value() ? std::move(read).value() : refused_file(read.error());
}

}  // namespace holdfast::ingress
