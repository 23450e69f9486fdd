#pragma once
// The chart ops/helm/holdfast, rendered by Helm, for tests of it.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/ops/run_command.h"

namespace holdfast::ops {

/// Folder of the chart.
std::string chart_dir();
/// Folder of tests/ops/helm/values, with a slash.
std::string chart_values_dir();
/// Path of a program that ops/lib.sh fetches for the chart (helm, kubectl); empty if it is not
/// there.
std::string chart_tool(const std::string& name);
/// Folder of the schemas, as ops/helm/check-manifests takes it.
std::string chart_schemas();

/// Runs `helm template` with these arguments; stderr is in the output of a failure.
CommandResult render_chart(const std::string& arguments);
/// Returns all rendered objects of a text of YAML, as an array; null if it cannot be read.
nlohmann::json objects_of(const std::string& yaml);
/// Returns the rendered object of a kind with a name that ends so; null if there is none.
nlohmann::json object_of(const nlohmann::json& objects, const std::string& kind,
                         const std::string& name_end);
/// Returns the pod templates of all objects that have one, and pods.
std::vector<nlohmann::json> pod_specs_of(const nlohmann::json& objects);
/// Returns init containers and containers of a pod.
std::vector<nlohmann::json> containers_of(const nlohmann::json& pod_spec);

/// A file with this text and a name of its own, removed at the end.
class TextFile {
 public:
  explicit TextFile(const std::string& text);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A file of values.
class ValuesFile {
 public:
  explicit ValuesFile(const nlohmann::json& values);
  /// The flag of Helm that names it.
  std::string flag() const { return "--values " + file_.path() + " "; }

 private:
  TextFile file_;
};

}  // namespace holdfast::ops
