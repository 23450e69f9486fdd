#include "shared/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "shared/base/bytes.h"
#include "shared/base/log_fields.h"

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
    const char* level_name = std::getenv("HOLDFAST_LOG");
    logger->set_level(level_name != nullptr ? spdlog::level::from_str(level_name)
                                            : spdlog::level::info);
  }
};

Sink& sink() {
  static Sink s;
  return s;
}

/// Appends a JSON string of at most `bytes_max` bytes and the closing quote: a line that was cut is
/// still one object, and it is UTF-8 whatever the bytes are.
void append_json_string(std::string& out, std::string_view text, std::size_t bytes_max) {
  const std::size_t end = out.size() + bytes_max;
  out.push_back('"');
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length_at(text.substr(i));
    const auto u = static_cast<unsigned char>(text[i]);
    char buffer[8];
    std::string_view escaped = text.substr(i, n);
    if (n == 0) {
      escaped = "\xEF\xBF\xBD";  // U+FFFD
    } else if (u == '"' || u == '\\') {
      buffer[0] = '\\';
      buffer[1] = text[i];
      escaped = {buffer, 2};
    } else if (u < 0x20) {
      std::snprintf(buffer, sizeof buffer, "\\u%04x", u);
      escaped = {buffer, 6};
    }
    if (out.size() + escaped.size() > end) break;
    out += escaped;
    i += std::max<std::size_t>(n, 1);
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

namespace {

template <class Fields>
void write_line(Level level, std::string_view event, const Fields& fields) {
  Sink& s = sink();
  const auto index = static_cast<std::size_t>(level);
  if (!s.logger->should_log(kLevels[index])) return;
  std::string line;
  if (s.json) {
    line = "{\"time\":\"" + time_stamp() + "\",\"level\":\"";
    line += kLevelNames[index];
    line += "\",\"program\":\"" + s.program + "\",\"event\":";
    append_json_string(line, event, kLineBytesMax / 2);
    for (const Field& f : fields) {
      // The field's name, quotes and the end of the object must fit too.
      const std::size_t around = line.size() + f.key.size() + 16;
      if (around >= kLineBytesMax) break;
      line += ",";
      append_json_string(line, f.key, kLineBytesMax - around);
      line += ":";
      append_json_string(line, f.value, kLineBytesMax - around);
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
    if (line.size() > kLineBytesMax) line.resize(kLineBytesMax);
  }
  s.logger->log(kLevels[index], "{}", line);
}

}  // namespace

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  write_line(level, event, fields);
}

void write_fields(Level level, std::string_view event, const std::vector<Field>& fields) {
  write_line(level, event, fields);
}

bool enabled(Level level) {
  return sink().logger->should_log(kLevels[static_cast<std::size_t>(level)]);
}

}  // namespace holdfast::log
