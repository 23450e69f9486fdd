#pragma once
// One call of the CLI: its verb and its flags. Flags are declared in the verb table (verbs.cpp),
// parsed and type-checked in parse.cpp, and read here by name.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/remote/address.h"

namespace holdfast::cli {

/// Exit codes that scripts rely on (docs/inside/architecture.md).
enum Exit : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitRefused = 4,
  kExitUnreachable = 69,
};

/// The arguments of a call. Reading a flag that the verb's table row does not declare is our bug
/// (CHECK).
class Call {
 public:
  std::string state_dir;  // --state, else default_state_dir()
  std::string url;        // --url; empty: not given
  /// The Holdfast elsewhere that is asked over HTTP; nullopt: the one of state_dir.
  std::optional<remote::Address> remote;
  /// "tcp://HOST:PORT" of the Holdfast elsewhere that is asked by its listener; empty: none is.
  std::string listener;
  bool json = false;   // one JSON document on stdout
  bool quiet = false;  // no message on success
  std::map<std::string, std::vector<std::string>, std::less<>> values;  // declared names only

  /// The address of the Holdfast elsewhere that is asked; empty: it is the one of state_dir.
  std::string elsewhere() const { return remote ? remote->url : listener; }
  bool has(std::string_view name) const { return !find(name).empty(); }
  /// The last value given, else the fallback.
  std::string text(std::string_view name, std::string_view fallback = {}) const;
  /// A number; parse.cpp has checked it by the table, so this cannot fail.
  std::int64_t integer(std::string_view name, std::int64_t fallback = 0) const;
  double real(std::string_view name, double fallback = 0) const;
  const std::vector<std::string>& list(std::string_view name) const { return find(name); }

 private:
  const std::vector<std::string>& find(std::string_view name) const;
};

}  // namespace holdfast::cli
