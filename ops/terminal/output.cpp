#include "ops/terminal/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

namespace holdfast::cli {
namespace {

nlohmann::json error_json(const wire::Refusal& refusal) {
  nlohmann::json error = {{"code", errc_name(refusal.code)}, {"message", refusal.message}};
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"needed", refusal.needed},
      {"free", refusal.free},
      {"largest", refusal.largest},
      {"retry_after_ms", refusal.retry_after_ms},
      {"queue_position", refusal.queue_position},
      {"eta_ms", refusal.eta_ms}};
  for (const auto& [name, value] : numbers) {
    if (value >= 0) error[name] = value;
  }
  return {{"error", error}};
}

}  // namespace

int exit_code(Errc code) {
  switch (code) {
    case Errc::kUsage:
      return kExitUsage;
    case Errc::kNotFound:
    case Errc::kModelNotFound:
      return kExitNotFound;
    case Errc::kUnreachable:
    case Errc::kTimeout:
      return kExitUnreachable;
    case Errc::kConflict:
    case Errc::kIdempotencyMismatch:
      return kExitRefused;
    default:
      return code <= Errc::kNoStandby ? kExitRefused : kExitFailed;
  }
}

int report_refusal(const Call& call, const wire::Refusal& refusal) {
  std::string line = "holdfast: " + refusal.message;
  const int code = exit_code(refusal.code);
  if (code == kExitRefused) line += " [" + std::string(errc_name(refusal.code)) + "]";
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "%s\n", line.c_str());
  if (call.json) {
    const auto document = error_json(refusal);
    std::printf("%s\n",
                document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
  return code;
}

int report_error(const Call& call, Errc code, std::string_view what) {
  wire::Refusal refusal;
  refusal.code = code;
  refusal.message = what;
  return report_refusal(call, refusal);
}

int report_error(const Call& call, const Error& error) {
  return report_error(call, error.code, error.what);
}

bool use_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || no_colour[0] == '\0');
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return buffer;
}

std::string human_time(std::int64_t wall_ms) {
  if (wall_ms <= 0) return "-";
  const std::time_t seconds = wall_ms / 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &local);
  return buffer;
}

}  // namespace holdfast::cli
