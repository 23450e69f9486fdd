#include "shared/profile/layers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "shared/base/bytes.h"
#include "shared/base/json_text.h"
#include "shared/base/readable.h"
#include "shared/profile/ollama.h"
#include "shared/profile/profile.h"
#include "shared/profile/template_text.h"

namespace holdfast::profile {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kTypePrefix = "application/vnd.ollama.image.";
constexpr std::array<std::string_view, 5> kParts = {"template", "system", "params", "messages",
                                                    "license"};
constexpr std::size_t kReasonBytesMax = 300;

/// Builds a profile of layers, each checked by itself.
class Builder {
 public:
  void add(const Layer& layer) {
    if (layer.bytes.empty()) return;
    if (!is_valid_utf8(layer.bytes)) return leave(layer.part, "it is not UTF-8");
    if (layer.part == "template") return add_template(layer.bytes);
    if (layer.part == "params") return add_parameters(layer.bytes);
    if (layer.part == "messages") return add_messages(layer.bytes);
    if (layer.part == "license") return add_license(layer.bytes);
    set("system", layer.bytes, "system");
  }

  TakenOver take() {
    if (!profile_.empty()) out_.profile = profile_.dump();
    return std::move(out_);
  }

 private:
  void leave(std::string_view what, std::string_view why) {
    out_.left_out.push_back(readable(std::string(what) + ": " + std::string(why), kReasonBytesMax));
  }
  /// Sets a member if the profile is right with it.
  void set(const std::string& member, const json& value, const std::string& what) {
    json with = profile_;
    with[member] = value;
    const auto good = checked_profile(with);
    if (!good) return leave(what, good.error().what);
    profile_ = std::move(with);
    out_.taken.push_back(what);
  }
  void add_template(const std::string& text) {
    auto jinja = template_as_jinja(text);
    if (!jinja) return leave("template", jinja.error().what + "; the file's own is used");
    set("template", *jinja, "template");
  }
  void add_parameters(const std::string& text) {
    const auto read = read_ollama_parameters(try_parse_json<json>(text, kBodyLimits));
    if (!read) return leave("parameters", read.error().what);
    out_.context = read->context;
    if (read->context > 0) out_.taken.emplace_back("parameter num_ctx");
    for (const std::string& name : read->left_out) leave("parameter " + name, "has no effect here");
    for (const std::string& why : read->wrong) leave("parameter", why);
    if (read->json.empty()) return;
    set("parameters", try_parse_json<json>(read->json), "parameters");
  }
  void add_messages(const std::string& text) {
    const json messages = try_parse_json<json>(text, kBodyLimits);
    if (messages.is_array() && messages.empty()) return;
    set("messages", messages, "messages");
  }
  /// A model may have several licenses: they are one text.
  void add_license(const std::string& text) {
    std::string whole = profile_.value("license", std::string());
    if (!whole.empty()) whole += "\n\n";
    set("license", whole + text, "license");
  }

  json profile_ = json::object();
  TakenOver out_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

std::optional<std::string_view> layer_part(std::string_view media_type) {
  if (!media_type.starts_with(kTypePrefix)) return std::nullopt;
  const auto part = media_type.substr(kTypePrefix.size());
  const auto* found = std::ranges::find(kParts, part == "prompt" ? kParts[0] : part);
  if (found == kParts.end()) return std::nullopt;
  return *found;
}

TakenOver take_over(const std::vector<Layer>& layers) {
  Builder builder;
  // In the order of kParts: a license is what is left out first where the room is short.
  for (const std::string_view part : kParts) {
    for (const Layer& layer : layers) {
      if (layer.part == part) builder.add(layer);
    }
  }
  return builder.take();
}

std::string summary(const TakenOver& taken_over) {
  std::string out;
  if (!taken_over.taken.empty()) out = "taken over: " + joined(taken_over.taken);
  if (taken_over.left_out.empty()) return out;
  if (!out.empty()) out += "; ";
  return out + "left out: " + joined(taken_over.left_out);
}

}  // namespace holdfast::profile
