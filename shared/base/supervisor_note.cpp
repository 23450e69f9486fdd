#include "shared/base/supervisor_note.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_of(const json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

SupervisorNote read_supervisor_note(const std::string& run_dir) {
  SupervisorNote note;
  std::ifstream file(run_dir + "/supervisor.json");
  const auto document = try_parse_json<json>(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!document.is_object()) return note;
  note.pid = static_cast<pid_t>(number_of(document, "pid"));
  const auto list = document.find("children");
  if (list == document.end() || !list->is_array()) return note;
  for (const json& child : *list) {
    if (!child.is_object()) continue;
    note.children.push_back({text_of(child, "role"), text_of(child, "name"),
                             number_of(child, "pid"), number_of(child, "restarts")});
  }
  return note;
}

}  // namespace holdfast
