#include "ops/cli/model_argument.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "ops/serve/daemon.h"
#include "ops/serve/model_path.h"
#include "ops/terminal/output.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

bool names_file(const std::string& model) {
  const bool looks_like_one =
      model.find('/') != std::string::npos || fs::path(model).extension() == ".gguf";
  std::error_code ignored;
  return looks_like_one || fs::is_regular_file(model, ignored) ||
         fs::exists(model + "/config.json", ignored);
}

/// Registers a file with a running daemon, under a name of its own.
bool register_file(const Call& call, const std::string& name, const std::string& path, int& exit) {
  const nlohmann::json args = {{"name", name}, {"path", path}};
  return operate(call, "models.add", args, exit, std::chrono::minutes(10)).has_value();
}

/// Reports a --device that nobody would heed. False: there is none.
bool refuse_device(const Call& call, const char* who, int& exit) {
  if (!call.has("device")) return false;
  exit = report_error(call, Errc::kUsage,
                      std::string("--device is for a file that no daemon serves; ") + who +
                          " serves this one, on the devices of its workers (`holdfast workers "
                          "list`; `holdfast serve --device` sets them)");
  return true;
}

}  // namespace

std::optional<ServedModel> serve_model(const Call& call, int& exit) {
  ServedModel served{call.text("MODEL"), call, nullptr};
  if (!names_file(served.name)) {
    if (refuse_device(call, "the daemon", exit)) return std::nullopt;
    return served;
  }
  const auto path = find_model(served.name);
  if (!path) {
    exit = report_error(call, path.error());
    return std::nullopt;
  }
  served.name = model_name_of(*path);
  if (!call.listener.empty()) {
    exit = report_error(call, Errc::kUsage,
                        served.name + ": is a file of this machine, and " + call.listener +
                            " is asked; register it there, and name the model");
    return std::nullopt;
  }
  if (daemon_listens(call.state_dir, std::chrono::milliseconds(0))) {
    if (refuse_device(call, "the daemon that runs", exit)) return std::nullopt;
    if (!register_file(call, served.name, *path, exit)) return std::nullopt;
    return served;
  }
  std::vector<std::string> flags;
  if (call.has("device")) flags = {"--device", call.text("device")};
  auto serve = TemporaryServe::start(served.name, *path, flags);
  if (!serve) {
    exit = report_error(call, Errc::kInternal, serve.error().what);
    return std::nullopt;
  }
  served.serve = std::move(*serve);
  served.call.state_dir = served.serve->state_dir();
  return served;
}

}  // namespace holdfast::cli
