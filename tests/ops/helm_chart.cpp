#include "tests/ops/helm_chart.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

}  // namespace

std::string chart_dir() {
  return HOLDFAST_SOURCE_DIR "/ops/helm/holdfast";
}

std::string chart_values_dir() {
  return HOLDFAST_SOURCE_DIR "/tests/ops/helm/values/";
}

std::string chart_tool(const std::string& name) {
  const std::string path = HOLDFAST_BUILD_DIR "/tools/" + name;
  return fs::exists(path) ? path : "";
}

std::string chart_schemas() {
  return HOLDFAST_BUILD_DIR "/tools/kubernetes/node_modules";
}

CommandResult render_chart(const std::string& arguments) {
  const TextFile errors("");
  CommandResult result = run_command(chart_tool("helm") + " template rel " + chart_dir() +
                                     " --namespace ns " + arguments + " 2>" + errors.path());
  std::ifstream file(errors.path());
  if (result.status != 0) result.out.append(std::istreambuf_iterator<char>(file), {});
  return result;
}

json objects_of(const std::string& yaml) {
  const TextFile file(yaml);
  const CommandResult read = run_command(
      "python3 -c 'import json, sys, yaml; json.dump([d for d in yaml.safe_load_all(open("
      "sys.argv[1])) if d], sys.stdout)' " +
      file.path() + " 2>&1");
  if (read.status != 0) return nullptr;
  return json::parse(read.out, nullptr, false);
}

json object_of(const json& objects, const std::string& kind, const std::string& name_end) {
  for (const json& object : objects) {
    const std::string name = object.at("metadata").at("name");
    if (object.at("kind") == kind && name.ends_with(name_end)) return object;
  }
  return nullptr;
}

std::vector<json> pod_specs_of(const json& objects) {
  std::vector<json> out;
  for (const json& object : objects) {
    if (object.at("kind") == "Pod") out.push_back(object.at("spec"));
    if (!object.contains("spec") || !object["spec"].contains("template")) continue;
    out.push_back(object["spec"]["template"].at("spec"));
  }
  return out;
}

std::vector<json> containers_of(const json& pod_spec) {
  std::vector<json> out;
  for (const char* group : {"initContainers", "containers"}) {
    for (const json& container : pod_spec.value(group, json::array())) out.push_back(container);
  }
  return out;
}

TextFile::TextFile(const std::string& text)
    : path_((fs::temp_directory_path() / "hf-chart-XXXXXX").string()) {
  const int fd = mkstemp(path_.data());
  if (fd >= 0) close(fd);
  std::ofstream(path_) << text;
}

TextFile::~TextFile() {
  fs::remove(path_);
}

ValuesFile::ValuesFile(const json& values) : file_(values.dump()) {}

}  // namespace holdfast::ops
