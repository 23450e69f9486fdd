// Encodes a configuration version as JSON, for `config_versions.content`.
#include <nlohmann/json.hpp>

#include "control/store/encode.h"
#include "shared/base/json_text.h"

namespace holdfast::store {
namespace {

using nlohmann::json;

std::string text_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

std::string encode_config(const core::ConfigVersion& version) {
  json settings = json::object();
  for (const auto& [name, s] : version.settings) {
    settings[name] = {{"value", std::visit([](const auto& held) { return json(held); }, s.value)},
                      {"source", s.source},
                      {"who", s.who},
                      {"version", s.version},
                      {"at_ms", s.at_ms}};
  }
  const json j = {{"settings", std::move(settings)},
                  {"imports", version.imports},
                  {"who", version.who},
                  {"change", version.change}};
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<core::ConfigVersion> decode_config(std::string_view text) {
  const Error damaged{Errc::kCorrupt, "config_versions: the stored value is damaged"};
  const json j = try_parse_json<json>(text);
  if (!j.is_object()) return damaged;
  core::ConfigVersion version;
  version.who = text_of(j, "who");
  version.change = text_of(j, "change");
  const auto imports = j.find("imports");
  if (imports != j.end() && imports->is_object()) {
    for (const auto& [source, said] : imports->items()) {
      if (said.is_string()) version.imports[source] = said.get<std::string>();
    }
  }
  const auto settings = j.find("settings");
  if (settings == j.end() || !settings->is_object()) return damaged;
  for (const auto& [name, s] : settings->items()) {
    if (!s.is_object() || !s.contains("value")) return damaged;
    core::Setting setting;
    const json& value = s["value"];
    if (value.is_number_integer()) {
      setting.value = value.get<std::int64_t>();
    } else if (value.is_string()) {
      setting.value = value.get<std::string>();
    } else {
      return damaged;
    }
    setting.source = text_of(s, "source");
    setting.who = text_of(s, "who");
    setting.version = s.value("version", std::int64_t{0});
    setting.at_ms = s.value("at_ms", std::int64_t{0});
    version.settings[name] = std::move(setting);
  }
  return version;
}

}  // namespace holdfast::store
