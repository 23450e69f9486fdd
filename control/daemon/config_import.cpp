#include "control/daemon/config_import.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace holdfast::daemon {
namespace {

constexpr std::string_view kPrefix = "HOLDFAST_";

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

/// Parses and checks one assignment; an error says where it stands.
Result<core::Assignment> checked(const std::string& text, const std::string& where) {
  HOLDFAST_TRY(core::Assignment assignment, core::parse_assignment(text));
  core::Config scratch;
  const Result<void> good =
      core::set_knob(scratch, assignment.name + "=" + assignment.value.value_or(""));
  if (!good) return Error{good.error().code, where + ": " + good.error().what};
  return assignment;
}

std::string variable_of(std::string_view knob) {
  std::string name(kPrefix);
  for (const char c : knob) {
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

/// Returns true if the variable begins with the group of a knob: "QUEUE_" of "queue.max_requests".
bool is_in_a_group(std::string_view variable) {
  const auto all = core::knobs();
  return std::any_of(all.begin(), all.end(), [&](const core::Knob& knob) {
    const std::string group = variable_of(knob.name.substr(0, knob.name.find('.'))) + "_";
    return variable.starts_with(group);
  });
}

}  // namespace

Result<core::ConfigImport> import_file(const std::string& path) {
  core::ConfigImport import{"file", path, {}};
  std::ifstream file(path);
  if (!file) return Error{Errc::kUsage, "config file " + path + ": " + std::strerror(errno)};
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    const std::string where = "config file " + path + ", line " + std::to_string(number);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
      return Error{Errc::kUsage, where + ": expected name = value"};
    }
    const std::string joined = std::string(trimmed(text.substr(0, equals))) + "=" +
                               std::string(trimmed(text.substr(equals + 1)));
    HOLDFAST_TRY(core::Assignment assignment, checked(joined, where));
    import.content.push_back(std::move(assignment));
  }
  return import;
}

Result<core::ConfigImport> import_environment(const char* const* environment) {
  core::ConfigImport import{"environment", "", {}};
  for (const char* const* at = environment; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry = *at;
    if (!entry.starts_with(kPrefix)) continue;
    const std::string_view name = entry.substr(0, entry.find('='));
    const auto all = core::knobs();
    const auto knob = std::find_if(all.begin(), all.end(), [&](const core::Knob& candidate) {
      return variable_of(candidate.name) == name;
    });
    if (knob == all.end()) {
      if (!is_in_a_group(name)) continue;
      return Error{Errc::kUsage,
                   "environment " + std::string(name) + ": no knob has this name; see config list"};
    }
    const std::string value(entry.substr(name.size() + 1));
    HOLDFAST_TRY(core::Assignment assignment, checked(std::string(knob->name) + "=" + value,
                                                      "environment " + std::string(name)));
    import.content.push_back(std::move(assignment));
  }
  return import;
}

Result<core::ConfigImport> import_command_line(const std::vector<std::string>& assignments) {
  core::ConfigImport import{"command line", "", {}};
  for (const std::string& text : assignments) {
    HOLDFAST_TRY(core::Assignment assignment, checked(text, "command line"));
    import.content.push_back(std::move(assignment));
  }
  return import;
}

}  // namespace holdfast::daemon
