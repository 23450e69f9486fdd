#pragma once
// The outside checker, after Jepsen's set checker: it relies on what clients saw and what can be
// read at the end, and on nothing about how the server works.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/process/chaos_clients.h"

namespace holdfast::process {

struct Verdict {
  std::int64_t attempted = 0;  // ids and keys
  std::int64_t acknowledged = 0;
  std::int64_t ended = 0;          // as clients saw
  std::int64_t recovered = 0;      // unknown to their clients, and present: that is right
  std::int64_t lost = 0;           // acknowledged, and missing or not ended
  std::int64_t repeated = 0;       // two requests of one key
  std::int64_t differing = 0;      // a token or an end that is not the expected one
  std::int64_t unexpected = 0;     // present, though no client asked for it
  std::vector<std::string> wrong;  // complaints of clients, and findings here
  bool good() const {
    return lost == 0 && repeated == 0 && differing == 0 && unexpected == 0 && wrong.empty();
  }
  std::string str() const;
};

/// Checks everything once clients have ended; the server is up and undisturbed. Waits for what is
/// still running, reads every acknowledged request back through the SDK, stops the server and reads
/// its database.
Verdict check_everything(TestServer& server, const std::vector<Spec>& specs,
                         const std::vector<std::string>& logs);

}  // namespace holdfast::process
