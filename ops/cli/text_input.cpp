#include "ops/cli/text_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ops/cli/tokenize.h"

namespace holdfast::cli {
namespace {

constexpr std::size_t kMost = 64 << 20;

std::string without_line_break(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

Result<std::string> read_stdin() {
  std::string text;
  char buffer[65'536];
  while (true) {
    const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{Errc::kIo, std::string("read stdin: ") + std::strerror(errno)};
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > kMost) {
      return Error{Errc::kInvalidRequest, "read stdin: it has more than 64 MiB"};
    }
  }
}

Result<std::string> text_argument(const Call& call, std::string_view name) {
  const bool given = call.has(name);
  if (given && call.text(name) != "-") return call.text(name);
  if (!given && isatty(STDIN_FILENO) == 1) {
    return Error{Errc::kUsage,
                 "expected " + std::string(name) + ", or text on stdin (- reads a terminal too)"};
  }
  HOLDFAST_TRY(std::string text, read_stdin());
  text = without_line_break(std::move(text));
  if (text.empty()) {
    return Error{Errc::kUsage, "expected " + std::string(name) +
                                   ", or text on stdin: there is none, and stdin is empty"};
  }
  return text;
}

Result<std::string> file_text_argument(const Call& call, std::string_view flag) {
  if (call.has(flag)) return read_text_argument(call.text(flag));
  std::string text;
  if (isatty(STDIN_FILENO) != 1) {
    HOLDFAST_TRY(text, read_stdin());
  }
  if (!text.empty()) return text;
  return Error{Errc::kUsage, "expected --" + std::string(flag) + " FILE, or text on stdin"};
}

}  // namespace holdfast::cli
