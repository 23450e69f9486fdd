// status, queue, config, workers: what the daemon says, for people or as JSON.

#include <nlohmann/json.hpp>

#include "ops/cli/daemon.h"
#include "ops/cli/verb_functions.h"

namespace holdfast::cli {

using nlohmann::json;

int status(const Call& call) {
  return operate_and_print(call, "status", json::object());
}

int queue_stats(const Call& call) {
  return operate_and_print(call, "queue.stats", json::object());
}

int queue_pause(const Call& call) {
  return operate_and_print(call, "queue.pause", json::object());
}

int queue_resume(const Call& call) {
  return operate_and_print(call, "queue.resume", json::object());
}

int config_list(const Call& call) {
  RenderOptions options;
  options.columns = {"name", "value", "default", "unit", "source", "help"};
  return operate_and_print(call, "config.list", json::object(), options);
}

int workers_list(const Call& call) {
  RenderOptions options;
  options.columns = {"key",     "id",      "state",  "pid",     "host",  "device",
                     "kernels", "threads", "engine", "running", "models"};
  options.when_empty = "no workers";
  return operate_and_print(call, "workers.list", json::object(), options);
}

}  // namespace holdfast::cli
