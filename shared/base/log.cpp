#include "shared/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace holdfast::log {
namespace {

constexpr std::size_t kLineBytesMax = 8192;

struct Sink {
  std::shared_ptr<spdlog::logger> logger;
  std::string program = "holdfast";
  bool json = false;
  Sink() {
    logger = std::make_shared<spdlog::logger>("holdfast",
                                              std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_pattern("%v");
    logger->flush_on(spdlog::level::debug);
    const char* wanted = std::getenv("HOLDFAST_LOG");
    logger->set_level(wanted != nullptr ? spdlog::level::from_str(wanted) : spdlog::level::info);
  }
};

Sink& sink() {
  static Sink s;
  return s;
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (u < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", u);
      out += buffer;
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn", "error"};
constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn, spdlog::level::err};

std::string time_stamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()) % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char buffer[40];
  const std::size_t n = std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(buffer + n, sizeof buffer - n, ".%03dZ", static_cast<int>(ms.count()));
  return buffer;
}

}  // namespace

void init(std::string_view program, bool json) {
  sink().program = program;
  sink().json = json;
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  Sink& s = sink();
  const auto index = static_cast<std::size_t>(level);
  if (!s.logger->should_log(kLevels[index])) return;
  std::string line;
  if (s.json) {
    line = "{\"time\":\"" + time_stamp() + "\",\"level\":\"";
    line += kLevelNames[index];
    line += "\",\"program\":\"" + s.program + "\",\"event\":";
    append_json_string(line, event);
    for (const Field& f : fields) {
      line += ",";
      append_json_string(line, f.key);
      line += ":";
      append_json_string(line, f.value);
    }
    line += "}";
  } else {
    line = time_stamp() + " " + s.program + " ";
    line += kLevelNames[index];
    line += ": ";
    line += event;
    for (const Field& f : fields) {
      line += " ";
      line += f.key;
      line += "=" + f.value;
    }
  }
  if (line.size() > kLineBytesMax) line.resize(kLineBytesMax);
  s.logger->log(kLevels[index], "{}", line);
}

}  // namespace holdfast::log
