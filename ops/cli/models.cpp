#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/cli/offline.h"
#include "ops/cli/tokenize.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/serve/model_path.h"
#include "ops/serve/other_stores.h"
#include "ops/terminal/output.h"
#include "shared/base/json_text.h"
#include "shared/profile/ollama.h"
#include "shared/profile/profile.h"
#include "shared/profile/template_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;
constexpr auto kFileTimeout = std::chrono::minutes(10);  // a large file is hashed

json by_name(const Call& call) {
  return {{"name", call.text("NAME")}};
}

/// The reason why no device takes the model now, while its placement is pending.
std::string what_it_waits_for(const json& model) {
  constexpr std::size_t kWidth = 100;  // a line of a terminal
  std::string why;
  if (model.value("state", "") != "placing") return why;
  for (const json& device : model.value("devices", json::array())) {
    why += "; " + device.value("worker", "") + ": " + device.value("why", "");
  }
  return why.substr(0, kWidth);
}

void clear_progress() {
  if (isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K");
}

/// "chat: qwen2, context 4096, added", as the daemon took it.
std::string added_line(const json& model) {
  std::string line = model.value("name", "") + ": ";
  if (const std::string kind = model.value("architecture", ""); !kind.empty()) line += kind + ", ";
  if (const auto context = model.value("context", std::int64_t{0}); context > 0) {
    line += "context " + std::to_string(context) + ", ";
  }
  line += "added";
  const std::string note = model.value("note", "");
  return note.empty() ? line : line + "; " + note;
}

/// The file to register: found on this machine, or taken as it is for a server elsewhere.
Result<std::string> path_to_add(const Call& call) {
  const std::string path = call.text("PATH");
  if (call.elsewhere().empty()) return find_model(path);
  if (path.starts_with('/')) return path;
  return Error{Errc::kUsage, path + ": expected a whole path on the machine of " +
                                 call.elsewhere() + ", beginning with /"};
}

/// Reads a value of --parameter: a number or a truth value if it is one, else a text.
json parameter_value(const std::string& text) {
  json value = try_parse_json<json>(text);
  return value.is_number() || value.is_boolean() || value.is_array() ? value : json(text);
}

/// Reads --parameter NAME=VALUE; `stop` may be repeated.
Result<json> parameters_of(const Call& call) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  for (const std::string& pair : call.list("parameter")) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{Errc::kUsage, "--parameter " + pair + ": expected NAME=VALUE"};
    }
    const std::string name = pair.substr(0, equals), text = pair.substr(equals + 1);
    const auto ours = profile::our_option(name);
    const std::string key = name == "num_predict" ? "max_tokens" : std::string(ours.value_or(name));
    if (key == "stop") {
      parameters[key].push_back(text);
    } else {
      parameters[key] = parameter_value(text);
    }
  }
  return json(parameters);
}

/// Returns what the name adds to the file: --template, --system, --parameter, over what a model of
/// Ollama's store has. An empty object: nothing.
Result<json> profile_of(const Call& call, const profile::TakenOver& taken) {
  json profile = taken.profile.empty() ? json::object() : try_parse_json<json>(taken.profile);
  if (call.has("template")) {
    const std::string path = call.text("template");
    std::error_code missing;
    if (!std::filesystem::is_regular_file(path, missing)) {
      return Error{Errc::kNotFound, "--template " + path + ": expected a file"};
    }
    HOLDFAST_TRY(const std::string text, read_text_argument(path));
    auto jinja = profile::template_as_jinja(text);
    if (!jinja) return Error{jinja.error().code, path + ": " + jinja.error().what};
    profile["template"] = std::move(*jinja);
  }
  if (call.has("system")) profile["system"] = call.text("system");
  if (call.has("parameter")) {
    HOLDFAST_TRY(const json parameters, parameters_of(call));
    json& all = profile["parameters"];
    if (!all.is_object()) all = json::object();
    all.update(parameters);
  }
  return profile;
}

/// Polls until the model is in a state that does not change by itself.
int wait_until_ready(const Call& call) {
  while (true) {
    int exit = kExitDone;
    const auto model = operate(call, "models.show", by_name(call), exit);
    if (!model) return exit;
    const std::string state = model->value("state", "");
    const bool gone = state == "failed" || state == "unloaded";
    if (state == "ready" || gone) clear_progress();
    if (state == "ready") {
      print_change(call, *model, call.text("NAME") + ": ready");
      return kExitDone;
    }
    if (gone) {
      const std::string reason = model->value("reason", "");
      std::string what = "model " + call.text("NAME");
      what.append(" is ").append(state).append(": ").append(reason);
      return report_error(call, Errc::kModelFailed, what);
    }
    if (isatty(STDERR_FILENO) == 1) {
      std::fprintf(stderr, "\r\033[K%s%s", state.c_str(), what_it_waits_for(*model).c_str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace

int models_list(const Call& call) {
  RenderOptions options;
  options.columns = {"name",       "state", "architecture", "context", "slots",
                     "size_bytes", "sha",   "path",         "reason"};
  options.nested["models"] = options.columns;
  options.nested["aliases"] = {"name", "stands_for", "changed_ms"};
  options.when_empty = "no models; add one with `holdfast models add NAME FILE.gguf`";
  return read_and_print(call, "models.list", json::object(), options);
}

int models_found(const Call& call) {
  json models = json::array();
  for (const StoredModel& model : list_stored_models()) {
    models.push_back({{"source", model.source}, {"size_bytes", model.bytes}, {"path", model.path}});
  }
  RenderOptions options;
  options.columns = {"source", "size_bytes", "path"};
  options.nested["models"] = options.columns;
  options.when_empty = "no models of other programs; `holdfast pull SOURCE` downloads one";
  print_document(call, {{"models", std::move(models)}}, options);
  return kExitDone;
}

int models_show(const Call& call) {
  return read_and_print(call, "models.show", by_name(call));
}

int models_add(const Call& call) {
  const auto path = path_to_add(call);
  if (!path) return report_error(call, path.error().code, "models add: " + path.error().what);
  const auto taken = !call.elsewhere().empty() ? Result<profile::TakenOver>(profile::TakenOver{})
                                               : find_stored_profile(call.text("PATH"));
  if (!taken) return report_error(call, taken.error().code, "models add: " + taken.error().what);
  const auto profile = profile_of(call, *taken);
  if (!profile) {
    return report_error(call, profile.error().code, "models add: " + profile.error().what);
  }
  json args = {{"name", call.text("NAME")}, {"path", *path}};
  if (taken->context > 0) args["context"] = taken->context;
  if (call.has("context")) args["context"] = call.integer("context");
  if (call.has("slots")) args["slots"] = call.integer("slots");
  if (call.has("kv-type")) args["kv_type"] = call.text("kv-type");
  if (call.has("options")) args["options"] = call.text("options");
  if (call.has("load")) args["load"] = true;
  if (!profile->empty()) args["profile"] = *profile;
  int exit = kExitDone;
  auto added = operate(call, "models.add", args, exit, kFileTimeout);
  if (!added) return exit;
  const std::string summary = profile::summary(*taken);
  if (!summary.empty()) (*added)["note"] = summary;
  if (call.has("load")) return wait_until_ready(call);
  print_change(call, *added, added_line(*added));
  return kExitDone;
}

int models_remove(const Call& call) {
  return operate_and_say(call, "models.remove", by_name(call), call.text("NAME") + ": removed");
}

int models_load(const Call& call) {
  int exit = kExitDone;
  const auto result = operate(call, "models.load", by_name(call), exit);
  if (!result) return exit;
  if (!call.has("no-wait")) return wait_until_ready(call);
  print_change(call, *result, call.text("NAME") + ": " + result->value("state", "asked to load"));
  return kExitDone;
}

int models_pin(const Call& call) {
  return operate_and_say(call, "models.pin", by_name(call), call.text("NAME") + ": pinned");
}

int models_unpin(const Call& call) {
  return operate_and_say(call, "models.unpin", by_name(call), call.text("NAME") + ": not pinned");
}

int models_unload(const Call& call) {
  int exit = kExitDone;
  const auto result = operate(call, "models.unload", by_name(call), exit);
  if (!result) return exit;
  print_change(call, *result, call.text("NAME") + ": " + result->value("state", "asked to unload"));
  return kExitDone;
}

}  // namespace holdfast::cli
