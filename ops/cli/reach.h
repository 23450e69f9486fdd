#pragma once
// Which verbs work against a Holdfast elsewhere, over HTTP or by its listener, and which on this
// machine alone.

#include <string>
#include <string_view>

#include "ops/terminal/call.h"
#include "shared/base/result.h"

namespace holdfast::cli {

/// Where a verb works.
enum class Reach : std::uint8_t {
  kDaemon,    // it asks a daemon: by the socket, by the listener, or over HTTP
  kListener,  // the same, but not over HTTP
  kServer,    // on the daemon's machine alone
  kFiles,     // on files of this machine, which it writes
  kPrints,    // without a daemon; it leaves nothing behind
};

/// Returns the reach of a verb by its path; kDaemon for those that are not known here.
Reach reach_of(std::string_view path);

/// Decides where the call goes and sets `call->remote` if that is elsewhere: by --url, else not
/// where --state or HOLDFAST_STATE names a directory, else by HOLDFAST_URL. kUsage for a verb that
/// works on this machine alone, for a wrong URL or key, and for --url with --state; verbs that only
/// print go on without HOLDFAST_URL.
Result<void> choose_server(Call* call, const std::string& path);

}  // namespace holdfast::cli
