#pragma once
// A pull as a row of the database: an object of the kind "pull" whose id is the model's name. The
// daemon makes and cancels it (control/objects/pull_rows.h), the fetcher does the work
// (control/fetch), the CLI and the gateway show it. schema/protocol.md lists the members.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::pull {

inline constexpr const char* kPullKind = "pull";

/// The states of a pull. The last three are ends.
enum class PullState : std::uint8_t {
  kQueued,       // nobody works on it
  kResolving,    // the hub or registry is asked what there is
  kDownloading,  // bytes come
  kVerifying,    // hashes of what is on the disk are computed
  kRegistering,  // the daemon reads the file's header and adds the model
  kWaiting,      // a try failed; the next is due at next_ms
  kDone,
  kFailed,
  kCancelled,
};

/// Returns "queued", "resolving", …
std::string_view pull_state_name(PullState state);
/// True for a state that does not change by itself.
bool is_ended(PullState state);

/// One file of a pull.
struct PullFile {
  std::string path;         // relative to the pull's folder
  std::string url;          // where it is read from
  std::int64_t bytes = -1;  // -1: the server did not say
  std::string sha256;       // 64 digits; empty: none is known
  std::string git_sha1;     // of a small file of the hub that has no SHA-256
  std::string etag;         // of a file without a hash: it is the same file while this is the same
  bool done = false;        // verified and in place
};

/// A pull.
struct PullJob {
  std::string source;             // to_text() of the source
  std::string name;               // of the model
  std::string hub;                // base URL of the hub, if it is another one
  bool load = false;              // load it when it is there
  std::int64_t rate_bytes_s = 0;  // bandwidth limit; 0: none

  PullState state = PullState::kQueued;
  std::vector<PullFile> files;     // empty until the source was asked
  std::string folder;              // of the files on the disk, once it is known
  std::string path;                // of the model: one of the files, or the folder
  std::int64_t bytes = 0;          // of all files
  std::int64_t done_bytes = 0;     // on the disk
  std::int64_t synced_bytes = 0;   // of the current file, safe against a power failure
  std::int64_t fetched_bytes = 0;  // received, with what came again
  std::string boot;                // boot id of the machine that wrote synced_bytes
  std::int64_t tries = 0;          // in a row without a byte
  std::int64_t next_ms = 0;        // when the next try is due
  std::string error_code, error;   // of the last try
  std::string note;                // what a person should know of the result
  bool untold = false;             // its end is to be told to webhooks, once it has ended
  std::string profile;             // that the model's name gets (shared/profile); empty: none
  std::int64_t context = 0;        // tokens of a sequence, as the source says; 0: it does not
};

/// Writes the row's body, a JSON object.
std::string to_json_text(const PullJob& job);
/// Reads a row's body. kCorrupt if it is none.
Result<PullJob> parse_pull(std::string_view text);

/// Returns the row's document for people and clients, without the URLs of files.
std::string public_json_text(const PullJob& job);

}  // namespace holdfast::pull
