#include "shared/hf/json_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace holdfast::hf {
namespace {

constexpr int kDeepest = 64;

/// The deepest nesting of brackets outside of strings. One pass, no memory.
int nesting_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == '}' || c == ']') --depth;
    if (deepest > kDeepest) break;
  }
  return deepest;
}

Result<nlohmann::json> parse(std::string_view text, const std::string& name) {
  const auto failed = [&](const std::string& why) {
    return Error{Errc::kFileInvalid, "read " + name + ": " + why};
  };
  if (nesting_of(text) > kDeepest) {
    return failed("brackets are nested deeper than " + std::to_string(kDeepest));
  }
  nlohmann::json out = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (out.is_discarded()) return failed("it is not valid JSON");
  return out;
}

}  // namespace

Result<std::string> read_text(const std::string& path, std::uint64_t most) {
  const auto failed = [&](const std::string& why) {
    return Error{Errc::kIo, "read " + path + ": " + why};
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
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
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, text.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  ::close(fd);
  if (done < size) return failed("it ended early");
  return text;
}

Result<nlohmann::json> parse_object(std::string_view text, const std::string& name) {
  HF_TRY(nlohmann::json out, parse(text, name));
  if (!out.is_object()) {
    return Error{Errc::kFileInvalid, "read " + name + ": expected a JSON object"};
  }
  return out;
}

Result<nlohmann::json> parse_array(std::string_view text, const std::string& name) {
  HF_TRY(nlohmann::json out, parse(text, name));
  if (!out.is_array()) return Error{Errc::kFileInvalid, "read " + name + ": expected a JSON array"};
  return out;
}

}  // namespace holdfast::hf
