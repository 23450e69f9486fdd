#include "shared/base/crash_point.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace holdfast {
namespace crash_detail {

bool armed = false;

}  // namespace crash_detail

namespace {

constexpr CrashPointInfo kPoints[] = {
#define HOLDFAST_CRASH_POINT(id, name, description) {CrashPoint::id, name, description},
#include "shared/base/crash_points.inc"
#undef HOLDFAST_CRASH_POINT
};

struct Armed {
  CrashPoint point{};
  std::string_view name;
  bool aborts = false;  // SIGABRT instead of SIGKILL
  int fired_fd = -1;    // open before the process gives up opening files; -1: no file to report to
  std::atomic<long> passes_left{0};
};
Armed g_armed;

[[noreturn]] void refuse(const std::string& text, const char* why) {
  std::fprintf(
      stderr,
      "HOLDFAST_CRASH_AT=%s: %s; expected NAME, NAME:N, one of them with ! behind it, or @FILE\n",
      text.c_str(), why);
  std::_Exit(64);
}

std::string read_small_file(const std::string& path) {
  char buffer[256];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t n = read(fd, buffer, sizeof buffer);
  close(fd);
  std::string text(buffer, static_cast<std::size_t>(n > 0 ? n : 0));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

const CrashPointInfo* find_point(const std::string& text, long* passes) {
  const std::size_t colon = text.rfind(':');
  *passes = 1;
  if (colon != std::string::npos) {
    char* end = nullptr;
    *passes = std::strtol(text.c_str() + colon + 1, &end, 10);
    if (*end != '\0' || *passes < 1) refuse(text, "not a count from 1");
  }
  const std::string name = text.substr(0, colon);
  for (const CrashPointInfo& info : kPoints) {
    if (info.name == name) return &info;
  }
  refuse(text, "no such crash point");
}

}  // namespace

std::span<const CrashPointInfo> crash_points() {
  return kPoints;
}

namespace {

/// Where HOLDFAST_CRASH_AT takes its crash point from.
struct Setting {
  std::string text;   // the crash point; empty: none (any more)
  std::string file;   // holds the text; empty: the variable does
  std::string fired;  // the file to report to; empty: none
};

Setting read_setting(std::string_view program) {
  const char* value = std::getenv("HOLDFAST_CRASH_AT");
  if (value == nullptr || value[0] == '\0') return {};
  const std::string base = value[0] == '@' ? value + 1 : "";
  if (base.empty()) return {value, "", ""};
  const std::string file = base + "." + std::string(program);
  return {read_small_file(file), file, base + ".fired"};
}

}  // namespace

void arm_crash_points(std::string_view program) {
  auto [text, file, fired] = read_setting(program);
  if (text.empty()) return;
  const bool aborts = text.back() == '!';
  if (aborts) text.pop_back();
  long passes = 0;
  const CrashPointInfo* info = find_point(text, &passes);
  if (info->name.substr(0, info->name.find('.')) != program) return;
  // Only one process can unlink the file, and that one dies.
  if (!file.empty() && unlink(file.c_str()) != 0) return;
  g_armed.point = info->point;
  g_armed.name = info->name;
  g_armed.aborts = aborts;
  if (!file.empty()) {
    g_armed.fired_fd = open(fired.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  g_armed.passes_left.store(passes);
  crash_detail::armed = true;
}

void crash_detail::pass(CrashPoint point) {
  if (point != g_armed.point || g_armed.passes_left.fetch_sub(1) != 1) return;
  if (g_armed.fired_fd >= 0) {
    const std::string line = std::string(g_armed.name) + " " + std::to_string(getpid()) + "\n";
    [[maybe_unused]] const ssize_t written = write(g_armed.fired_fd, line.data(), line.size());
  }
  if (g_armed.aborts) std::abort();
  kill(getpid(), SIGKILL);
  for (;;) pause();  // the signal is on its way
}

}  // namespace holdfast
