#pragma once
// Configuration as a chain of versions: each change, wherever it was made, is a new version that
// holds everything which differs from the defaults and where that came from. Pure functions.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/config.h"

namespace holdfast::core {

/// The value of one knob that was set, and where it came from.
struct Setting {
  KnobValue value = std::int64_t{0};
  std::string source;  // "operator", "file", "environment", "command line"
  std::string who;     // the operator, or the file's path
  std::int64_t version = 0;
  std::int64_t at_ms = 0;  // wall
  bool operator==(const Setting&) const = default;
};

/// One version of the configuration: what differs from the defaults, and who changed it.
struct ConfigVersion {
  std::int64_t version = 0;  // 0: the defaults
  std::int64_t at_ms = 0;
  std::string source;
  std::string who;
  std::string change;                          // for people: "queue.max_requests 5 -> 7, …"
  std::map<std::string, Setting> settings;     // by knob name
  std::map<std::string, std::string> imports;  // source -> its content at the last import
};

/// One change: a value for the knob `name`, or its default again.
struct Assignment {
  std::string name;
  std::optional<std::string> value;
};
/// Splits "name=value". kUsage: no "=", or no name before it.
Result<Assignment> parse_assignment(std::string_view text);

/// All knobs that there are always, and those of subjects that these versions set.
std::vector<NamedKnob> knobs_of(const std::vector<const ConfigVersion*>& versions);

/// Returns `base` with the settings of a version. Names of knobs that this program does not have
/// are left out; they are listed in `unknown` if that is given.
Config effective_config(const Config& base, const ConfigVersion& version,
                        std::vector<std::string>* unknown = nullptr);

/// Where a change of the configuration came from.
struct ChangeOrigin {
  std::string source;
  std::string who;
  std::int64_t at_ms = 0;
};

/// Returns the version after these changes. kUsage: no change, unknown name, not a number, out of
/// range; nothing is changed then.
Result<ConfigVersion> changed_version(const ConfigVersion& current, const Config& base,
                                      const std::vector<Assignment>& changes,
                                      const ChangeOrigin& origin);

/// Returns the version after the import of a source at a start; nullopt if the content is the same
/// as at its last import, so that later changes by others stand. A setting that the source no
/// longer has goes back to its default, unless somebody else has set it since. Errors as in
/// changed_version.
Result<std::optional<ConfigVersion>> imported_version(const ConfigVersion& current,
                                                      const Config& base,
                                                      const std::vector<Assignment>& content,
                                                      const ChangeOrigin& origin);

/// Content of a source of settings at a start. The shell has checked that names and values are good
/// (imported_version does not refuse them).
struct ConfigImport {
  std::string source;  // "file", "environment", "command line"
  std::string who;     // the file's path
  std::vector<Assignment> content;
};

/// Returns the configuration in effect after a start with these versions (oldest first) and
/// imports, for what must be known before the machine has booted.
Config startup_config(const Config& base, const std::vector<ConfigVersion>& versions,
                      const std::vector<ConfigImport>& imports);

/// Returns a new version with the settings of an older one.
ConfigVersion rolled_back_version(const ConfigVersion& current, const Config& base,
                                  const ConfigVersion& target, const ChangeOrigin& origin);

/// The difference of two versions for people: "name old -> new, …".
std::string describe_change(const Config& base, const ConfigVersion& from, const ConfigVersion& to);

}  // namespace holdfast::core
