// Ollama's create: a name with what the body adds to its file (shared/profile/profile.h). The file
// is that of a model here, whose own name's additions are taken over where the body is silent; or
// it is made of blobs that were sent before, which is a pull (shared/pull/job.h): a row that goes
// on after any crash.

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/ollama/ollama_body.h"
#include "control/gateway/ollama/ollama_change.h"
#include "control/gateway/ollama/pull_lines.h"
#include "shared/base/json_text.h"
#include "shared/profile/ollama.h"
#include "shared/profile/template_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// A body of /api/create as it was read.
struct Creation {
  std::string name;
  std::string from;
  json files;  // name → digest, in place of `from`; null: none
  bool stream = true;
  json profile = json::object();        // members that replace those of `from`
  std::int64_t context = 0;             // 0: that of `from`
  std::vector<std::string> notes = {};  // lines about what is not taken over
};

/// Members that have another way here.
struct OtherWay {
  const char* member;
  const char* way;
};
constexpr OtherWay kOtherWays[] = {
    {"adapters", "adapters are not loaded by this API; merge it into a GGUF file and add that"},
    {"quantize", "run `holdfast quantize IN OUT TYPE` and `holdfast models add NAME OUT`"},
    {"modelfile", "send its lines as members: from, template, system, parameters, messages"},
};

bool is_set(const json& body, const char* member) {
  const auto found = body.find(member);
  if (found == body.end() || found->is_null()) return false;
  if (found->is_string()) return !found->get_ref<const std::string&>().empty();
  return !found->empty();
}

FieldError fault(const std::string& member, const std::string& what) {
  return {"'" + member + "' is not right: " + what, member};
}

std::optional<FieldError> read_template(const json& body, Creation& out) {
  if (!is_set(body, "template")) return std::nullopt;
  if (!body["template"].is_string()) return fault("template", "expected a text");
  auto jinja = profile::template_as_jinja(body["template"].get_ref<const std::string&>());
  if (!jinja) return fault("template", jinja.error().what);
  out.profile["template"] = std::move(*jinja);
  return std::nullopt;
}

std::optional<FieldError> read_parameters(const json& body, Creation& out) {
  if (!is_set(body, "parameters")) return std::nullopt;
  const auto read = profile::read_ollama_parameters(body["parameters"]);
  if (!read) return fault("parameters", read.error().what);
  if (!read->wrong.empty()) return fault("parameters", read->wrong.front());
  if (!read->json.empty()) out.profile["parameters"] = try_parse_json<json>(read->json);
  out.context = read->context;
  for (const std::string& name : read->left_out) {
    out.notes.push_back("parameter " + name + " has no effect here and is left out");
  }
  return std::nullopt;
}

/// Reads the members that become the profile. Returns the first fault.
std::optional<FieldError> read_profile_members(const json& body, Creation& out) {
  for (const char* member : {"system", "messages"}) {
    if (is_set(body, member)) out.profile[member] = body[member];
  }
  if (is_set(body, "license")) {
    auto license = profile::read_ollama_license(body["license"]);
    if (!license) return fault("license", license.error().what);
    out.profile["license"] = std::move(*license);
  }
  if (auto error = read_template(body, out)) return error;
  return read_parameters(body, out);
}

std::optional<FieldError> read_creation(const json& body, Creation& out) {
  for (const auto& [member, way] : kOtherWays) {
    if (is_set(body, member)) {
      return FieldError{"'" + std::string(member) + "' is not supported: " + way, member};
    }
  }
  out.name = named_model(body);
  out.from = without_latest(body.value("from", std::string()));
  if (out.name.empty()) return FieldError{"'model' is required: the new name", "model"};
  if (is_set(body, "files")) out.files = body["files"];
  if (out.from.empty() == out.files.is_null()) {
    return FieldError{
        "either 'from', the name of a model here, or 'files', names and digests of what was sent "
        "to "
        "/api/blobs, is required",
        "from"};
  }
  if (const auto stream = body.find("stream"); stream != body.end() && stream->is_boolean()) {
    out.stream = stream->get<bool>();
  }
  if (auto error = read_profile_members(body, out)) return error;
  const auto good = profile::checked_profile(out.profile);
  if (good) return std::nullopt;
  return FieldError{good.error().what, "model"};
}

/// The members of `from`'s profile that the creation does not replace, and its own. Single
/// parameters are replaced, as Ollama does.
json merged_profile(const json& from, const Creation& creation) {
  json out = from.is_object() ? from : json::object();
  for (const auto& [name, value] : creation.profile.items()) {
    if (name == "parameters" && out.contains(name)) {
      out[name].update(value);
    } else {
      out[name] = value;
    }
  }
  return out;
}

Response created(const Creation& creation) {
  Response response;
  response.content_type = creation.stream ? "application/x-ndjson" : "application/json";
  const auto line = [&](const std::string& status) {
    response.body +=
        json{{"status", status}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  if (creation.stream) {
    line("using existing layer of " + creation.from);
    for (const std::string& note : creation.notes) line(note);
    line("writing manifest");
  }
  line("success");
  return response;
}

/// Has a model made of blobs, and tells of it until its end.
void create_from_files(Context& context, const ExchangePtr& exchange, const Creation& creation) {
  json args = {{"name", creation.name}, {"files", creation.files}};
  args["profile"] = merged_profile({}, creation);
  if (creation.context > 0) args["context"] = creation.context;
  change_models(context, exchange, "pulls.start", args,
                [&context, exchange, creation](const std::string&) {
                  tell_of_pull(context, exchange, creation.name, creation.stream, creation.notes);
                });
}

}  // namespace

void post_ollama_create(Context& context, const ExchangePtr& exchange, const Captures&) {
  const auto body = read_model_change(context, exchange);
  if (!body) return;
  Creation creation;
  if (const auto error = read_creation(*body, creation)) {
    return exchange->respond(error_response(*error));
  }
  if (!creation.files.is_null()) return create_from_files(context, exchange, creation);
  const auto change = [creation](json& args) {
    if (creation.context > 0) args["context"] = creation.context;
    args["profile"] = merged_profile(args.value("profile", json()), creation);
  };
  add_name(context, exchange, creation.from, creation.name, change,
           [exchange, creation] { exchange->respond(created(creation)); });
}

}  // namespace holdfast::gateway
