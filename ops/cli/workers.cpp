// The verbs queue, nodes and workers: the daemon's answers, for people or as JSON.

#include <nlohmann/json.hpp>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

const std::vector<std::string> kWorkerColumns = {
    "key",     "state",  "pid",        "device", "kernels",      "threads",     "engine",
    "running", "models", "pages_used", "pages",  "memory_total", "memory_free", "reason"};

}  // namespace

int queue_stats(const Call& call) {
  return operate_and_print(call, "queue.stats", json::object());
}

int queue_pause(const Call& call) {
  return operate_and_say(call, "queue.pause", json::object(),
                         "the queue is paused: nothing new starts");
}

int queue_resume(const Call& call) {
  return operate_and_say(call, "queue.resume", json::object(), "the queue runs");
}

int nodes_list(const Call& call) {
  RenderOptions options;
  options.columns = {"name",       "state", "workers", "heard_ms", "liveness",
                     "silence_ms", "host",  "version", "models",   "reason"};
  options.when_empty =
      "no node has joined; `holdfast keys node create NAME --out FILE` makes a key for one";
  return operate_and_print(call, "nodes.list", json::object(), options);
}

int nodes_show(const Call& call) {
  RenderOptions options;
  options.nested["fetches"] = {"name", "state", "done_bytes", "bytes", "source", "error"};
  return operate_and_print(call, "nodes.show", {{"name", call.text("NAME")}}, options);
}

int nodes_drain(const Call& call) {
  return operate_and_say(call, "nodes.drain", {{"name", call.text("NAME")}},
                         call.text("NAME") + ": its workers get nothing new");
}

int nodes_resume(const Call& call) {
  return operate_and_say(call, "nodes.resume", {{"name", call.text("NAME")}},
                         call.text("NAME") + ": its workers get work again");
}

int workers_list(const Call& call) {
  RenderOptions options;
  options.columns = kWorkerColumns;
  options.when_empty = "no workers";
  return operate_and_print(call, "workers.list", json::object(), options);
}

int workers_drain(const Call& call) {
  return operate_and_say(call, "workers.drain", {{"key", call.text("KEY")}},
                         call.text("KEY") + ": gets nothing new");
}

int workers_resume(const Call& call) {
  return operate_and_say(call, "workers.resume", {{"key", call.text("KEY")}},
                         call.text("KEY") + ": gets work again");
}

}  // namespace holdfast::cli
