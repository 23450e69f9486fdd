#include "shared/base/state_dir.h"

#include <unistd.h>

#include <filesystem>

#include "shared/base/environment.h"

namespace holdfast {
namespace {

constexpr const char* kHere = "./holdfast-state";

bool has_database(const std::string& directory) {
  std::error_code failed;
  return std::filesystem::exists(directory + "/control.db", failed);
}

}  // namespace

std::string default_state_dir() {
  if (const std::string named = environment("HOLDFAST_STATE"); !named.empty()) return named;
  if (const std::string given = environment("STATE_DIRECTORY"); !given.empty()) {
    return given.substr(0, given.find(':'));
  }
  if (has_database(kHere)) return kHere;
  if (geteuid() == 0) return "/var/lib/holdfast";
  // The specification has a relative path ignored.
  if (const std::string home = environment("XDG_STATE_HOME"); home.starts_with('/')) {
    return home + "/holdfast";
  }
  if (const std::string home = environment("HOME"); home.starts_with('/')) {
    return home + "/.local/state/holdfast";
  }
  return kHere;
}

}  // namespace holdfast
