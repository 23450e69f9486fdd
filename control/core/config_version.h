#pragma once
// Configuration as a chain of versions: each change, wherever it was made, is a new version that
// holds everything which differs from the defaults and where that came from. Pure functions.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/config.h"

namespace holdfast::core {

/// One knob that has a value of its own.
struct Setting {
  KnobValue value = std::int64_t{0};
  std::string source;  // "operator", "file", "environment", "command line"
  std::string who;     // the operator, or the file's path
  std::int64_t version = 0;
  std::int64_t at_ms = 0;  // wall
  bool operator==(const Setting&) const = default;
};

struct ConfigVersion {
  std::int64_t version = 0;  // 0: the defaults
  std::int64_t at_ms = 0;
  std::string source;
  std::string who;
  std::string change;                          // for people: "queue.max_requests 5 -> 7, …"
  std::map<std::string, Setting> settings;     // by knob name
  std::map<std::string, std::string> imports;  // source -> what it said when it was last imported
};

/// "name" back to its default, or "name" to a value.
struct Assignment {
  std::string name;
  std::optional<std::string> value;
};
/// Splits "name=value". kUsage.
Result<Assignment> parse_assignment(std::string_view text);

/// All knobs that there are always, and those of tenants that these versions set.
std::vector<NamedKnob> knobs_of(const std::vector<const ConfigVersion*>& versions);

/// `base` with the settings. Names of knobs that this program does not have (any more) are left
/// out: they are listed in `unknown` if that is given.
Config effective_config(const Config& base, const ConfigVersion& version,
                        std::vector<std::string>* unknown = nullptr);

struct ChangeOrigin {
  std::string source;
  std::string who;
  std::int64_t at_ms = 0;
};

/// The version after these changes. kUsage: unknown name, not a number, out of range; nothing is
/// changed then.
Result<ConfigVersion> changed_version(const ConfigVersion& current, const Config& base,
                                      const std::vector<Assignment>& changes,
                                      const ChangeOrigin& origin);

/// What a source says at a start. nullopt: the same as when it was last imported, so later changes
/// by others stand. What it said then and does not say now goes back to its default, unless
/// somebody else has set it since.
Result<std::optional<ConfigVersion>> imported_version(const ConfigVersion& current,
                                                      const Config& base,
                                                      const std::vector<Assignment>& content,
                                                      const ChangeOrigin& origin);

/// What a source of settings says at a start. The shell has checked that names and values are
/// good (imported_version does not refuse them).
struct ConfigImport {
  std::string source;  // "file", "environment", "command line"
  std::string who;     // the file's path
  std::vector<Assignment> content;
};

/// What is in effect after a start with these versions (oldest first) and imports: for what must be
/// known before the machine has booted.
Config startup_config(const Config& base, const std::vector<ConfigVersion>& versions,
                      const std::vector<ConfigImport>& imports);

/// The settings of an older version as a new one.
ConfigVersion rolled_back_version(const ConfigVersion& current, const Config& base,
                                  const ConfigVersion& target, const ChangeOrigin& origin);

/// Lines "name old -> new" of two versions, for people.
std::string describe_change(const Config& base, const ConfigVersion& from, const ConfigVersion& to);

}  // namespace holdfast::core
