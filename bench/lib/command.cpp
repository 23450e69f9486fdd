#include "bench/lib/command.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::bench {

std::string replaced(std::string text, const std::string& name, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size()) {
    text.replace(at, name.size(), value);
  }
  return text;
}

std::string shell_word(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

Result<Ended> run_command(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return Error{Errc::kIo, "cannot run " + command};
  Ended ended;
  std::array<char, 4096> buffer;
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ended.out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

nlohmann::json last_json(const std::string& out) {
  const std::size_t last = out.rfind("\n{");
  return try_parse_json<nlohmann::json>(last == std::string::npos ? out : out.substr(last + 1));
}

Result<nlohmann::json> json_of_command(const std::string& command) {
  HOLDFAST_TRY(const Ended ended, run_command(command));
  nlohmann::json json = last_json(ended.out);
  if (ended.status == 0 && json.is_object()) return json;
  const std::size_t end = ended.out.size();
  return Error{Errc::kIo,
               command + ": " +
                   (ended.status != 0 ? "ended with " + std::to_string(ended.status)
                                      : std::string("its last output is no JSON object")) +
                   ": " + ended.out.substr(end > 200 ? end - 200 : 0)};
}

}  // namespace holdfast::bench
