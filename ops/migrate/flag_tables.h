#pragma once
// The table behind `holdfast migrate from`: each flag and environment variable of other servers,
// and what it is here. docs/use/migration.md says the same to people.

#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::migrate {

/// A server whose flags are in the table.
enum class Server : std::uint8_t { kLlamaServer, kOllama, kVllm };

/// The kind of thing that a flag becomes.
enum class Target : std::uint8_t {
  kServe,      // a flag of `serve` with its value
  kServeOnly,  // a flag of `serve` without a value, or with a fixed one
  kAdd,        // a flag of `models add` with its value
  kSetting,    // a knob with its value
  kCommand,    // a command line; {} stands for the value
  kModel,      // the model's file
  kName,       // the model's name
  kHost,       // the host of --http; may have a port
  kPort,
  kNoNeed,   // nothing has to be done; `note` says why
  kNothing,  // there is no counterpart; `note` says what comes nearest
};

/// The way in which a value is rewritten.
enum class Rewrite : std::uint8_t {
  kAsIs,
  kPositive,      // 0 and less stand for the default: nothing is written
  kKvType,        // of the KV cache: f16, q8_0, fp8_e4m3, …
  kGpuLayers,     // -ngl
  kShare,         // 0.9 as 90
  kSeconds,       // 5m, 90 as seconds; negative: without end
  kMilliseconds,  // the same in ms
  kSecondsAsMs,   // a number of seconds as ms
  kOrigins,       // a list with commas, or in JSON: the flag is repeated
  kOffOnly,       // matters if it is 0, false, off or no; else nothing is written
  kOnOnly,        // matters unless it is 0, false, off or no
};

/// One row. `names`: spellings separated by blanks; those in capitals are environment variables.
struct FlagRow {
  std::string_view names;
  bool takes_value;
  Target target;
  std::string_view ours;
  Rewrite rewrite = Rewrite::kAsIs;
  std::string_view note = "";
};

/// One server.
struct ServerTable {
  Server server;
  std::string_view name;         // as it is typed
  std::string_view programs;     // names of its program, separated by blanks
  std::string_view environment;  // prefixes of its variables, separated by blanks
  std::string_view host;         // where it listens if nothing is said
  std::string_view port;
  std::span<const FlagRow> flags;
  std::span<const FlagRow> verbs;  // of its command line, where they are no flags
};

/// Returns all servers.
std::span<const ServerTable> server_tables();
/// Returns the table of a server by its name; nullptr if there is none.
const ServerTable* find_server(std::string_view name);

}  // namespace holdfast::migrate
