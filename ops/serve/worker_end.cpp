#include "ops/serve/worker_end.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "shared/base/step_journal.h"

namespace holdfast::cli {

using nlohmann::json;

WorkerEnd worker_end_of(const ChildExit& exit, const std::string& journal_path) {
  WorkerEnd end{exit, std::nullopt};
  const auto record = read_step_journal(journal_path, exit.pid);
  if (record.has_value() && record->complete) end.step = record->marks;
  return end;
}

json worker_end_json(const WorkerEnd& end) {
  json args = {{"pid", end.exit.pid},
               {"status", end.exit.status},
               {"signal", end.exit.signal},
               {"oom", end.exit.oom},
               {"name", end.exit.name}};
  if (!end.step.has_value()) return args;
  args["step"] = json::array();
  for (const std::uint64_t mark : *end.step) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(mark));
    args["step"].push_back(text);
  }
  return args;
}

}  // namespace holdfast::cli
