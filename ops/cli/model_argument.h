#pragma once
// The argument MODEL|FILE of a verb that generates: a served model, or a file that is served for
// the time of the verb.

#include <memory>
#include <optional>
#include <string>

#include "ops/serve/temporary_serve.h"
#include "ops/terminal/call.h"

namespace holdfast::cli {

/// A model that the daemon of `call` has.
struct ServedModel {
  std::string name;
  Call call;                              // its state directory is that of the daemon
  std::unique_ptr<TemporaryServe> serve;  // if the daemon was started for it
};

/// Serves the model of the call's MODEL: a name is taken as it is, a file is registered with the
/// daemon, or without one served by a `serve` of its own, on the call's --device. nullopt after the
/// error was reported, with `exit` set; kUsage for --device where a daemon chooses.
std::optional<ServedModel> serve_model(const Call& call, int& exit);

}  // namespace holdfast::cli
