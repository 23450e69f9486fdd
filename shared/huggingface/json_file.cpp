#include "shared/huggingface/json_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "shared/base/json_text.h"
#include "shared/base/open_files.h"
#include "shared/gguf/lookalike.h"

namespace holdfast::huggingface {
namespace {

Result<nlohmann::json> parse(std::string_view text, const std::string& name) {
  const auto failed = [&](const std::string& why) {
    return Error{Errc::kFileInvalid, "read " + name + ": " + why};
  };
  const auto not_json = [&](const std::string& why) {
    const std::string_view other = gguf::lookalike(std::as_bytes(std::span(text)));
    return failed(other.empty() ? why : why + "; " + std::string(other));
  };
  const Result<JsonSize> size = measure_json(text, kDocumentLimits);
  if (!size) return not_json("it is " + size.error().what);
  nlohmann::json out = try_parse_json<nlohmann::json>(text);
  if (out.is_discarded()) return not_json("it is not valid JSON");
  return out;
}

/// Fills `text` from a file; returns how many bytes there were.
std::size_t read_all(int fd, std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

Result<std::string> read_text(const std::string& path, std::uint64_t most) {
  const auto failed = [&](const std::string& why) {
    return Error{Errc::kIo, "read " + path + ": " + why};
  };
  const int fd = open_to_read(path);
  if (fd < 0) return failed(std::strerror(errno));
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = regular ? static_cast<std::uint64_t>(info.st_size) : 0;
  if (!regular || size > most) {
    ::close(fd);
    if (!regular) return failed("not a regular file");
    return Error{Errc::kFileInvalid, "read " + path + ": it has " + std::to_string(size) +
                                         " bytes, expected at most " + std::to_string(most)};
  }
  std::string text(size, '\0');
  const std::size_t done = read_all(fd, text);
  ::close(fd);
  if (done < size) return failed("it ended early");
  return text;
}

Result<nlohmann::json> parse_object(std::string_view text, const std::string& name) {
  HOLDFAST_TRY(nlohmann::json out, parse(text, name));
  if (!out.is_object()) {
    return Error{Errc::kFileInvalid, "read " + name + ": expected a JSON object"};
  }
  return out;
}

Result<nlohmann::json> parse_array(std::string_view text, const std::string& name) {
  HOLDFAST_TRY(nlohmann::json out, parse(text, name));
  if (!out.is_array()) return Error{Errc::kFileInvalid, "read " + name + ": expected a JSON array"};
  return out;
}

}  // namespace holdfast::huggingface
