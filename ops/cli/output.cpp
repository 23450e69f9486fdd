#include "ops/cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

namespace holdfast::cli {
namespace {

constexpr std::string_view kGreen = "\033[32m", kRed = "\033[31m", kYellow = "\033[33m";
constexpr std::string_view kBold = "\033[1m", kPlain = "\033[0m";

/// States of requests, models and workers, by what they mean to the one who looks.
std::string_view colour_of(std::string_view cell) {
  for (const char* good : {"ready", "succeeded", "running", "ok", "idle", "yes", "connected"}) {
    if (cell == good) return kGreen;
  }
  for (const char* bad : {"failed", "quarantined", "expired", "lost", "dead", "suspected"}) {
    if (cell == bad) return kRed;
  }
  for (const char* between :
       {"queued", "placing", "loading", "warming", "draining", "paused", "cancelled", "starting"}) {
    if (cell == between) return kYellow;
  }
  return {};
}

/// Columns that a terminal uses: code points, which is right for what we print.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool is_number(std::string_view cell) {
  return !cell.empty() && std::all_of(cell.begin(), cell.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '%';
  });
}

void append_padded(std::string& out, std::string_view cell, std::size_t width, bool right,
                   std::string_view colour) {
  const std::string blanks(width - std::min(width, width_of(cell)), ' ');
  if (right) out += blanks;
  if (!colour.empty()) out += colour;
  out += cell;
  if (!colour.empty()) out += kPlain;
  if (!right) out += blanks;
}

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
      return code <= Errc::kStorageFull ? kExitRefused : kExitFailed;
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

std::string Table::str(bool colour) const {
  std::vector<std::size_t> widths;
  std::vector<bool> right(header_.size(), true);
  for (const std::string& cell : header_) widths.push_back(width_of(cell));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i]));
      right[i] = right[i] && (row[i] == "-" || is_number(row[i]));
    }
  }
  std::string out;
  const auto add_row = [&](const std::vector<std::string>& row, bool is_header) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string_view cell = i < row.size() ? std::string_view(row[i]) : std::string_view();
      const std::string_view tint = !colour     ? std::string_view()
                                    : is_header ? kBold
                                                : colour_of(cell);
      const bool last = i + 1 == widths.size();
      append_padded(out, cell, last && !right[i] ? 0 : widths[i], right[i], tint);
      if (!last) out += "  ";
    }
    out += '\n';
  };
  add_row(header_, true);
  for (const auto& row : rows_) add_row(row, false);
  return out;
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
