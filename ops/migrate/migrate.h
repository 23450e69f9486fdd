#pragma once
// The command line and the environment of another server as ours.

#include <map>
#include <string>
#include <vector>

#include "ops/migrate/flag_tables.h"

namespace holdfast::migrate {

using Environment = std::map<std::string, std::string>;

/// A deployment of another server as ours.
struct Migration {
  /// A flag or variable as it was given, and what is to be said of it.
  struct Remark {
    std::string given;
    std::string why;
  };
  std::vector<std::string> commands;  // to be run in this order; quoted for a shell
  std::vector<Remark> remarks;        // mapped with a difference, or not needed here
  std::vector<Remark> unmapped;       // no counterpart, or not in the table
};

/// Returns the variables of `all` that the server reads.
Environment variables_of(const ServerTable& server, const Environment& all);

/// Translates a command line, with or without the name of its program, and variables. Flags outrank
/// variables, the last of equal flags counts. Never fails: what is not understood is `unmapped`.
Migration migrate(const ServerTable& server, const std::vector<std::string>& words,
                  const Environment& environment);

}  // namespace holdfast::migrate
