// ModelShape as JSON, the form in the database.

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {
namespace {

using nlohmann::json;

constexpr std::pair<RopeStyle, const char*> kStyles[] = {
    {RopeStyle::kNone, "none"}, {RopeStyle::kNorm, "norm"}, {RopeStyle::kNeox, "neox"}};
constexpr std::pair<RopeScaling, const char*> kScalings[] = {{RopeScaling::kNone, "none"},
                                                             {RopeScaling::kLinear, "linear"},
                                                             {RopeScaling::kLlama3, "llama3"},
                                                             {RopeScaling::kYarn, "yarn"},
                                                             {RopeScaling::kLongrope, "longrope"}};

/// The only list of fields: calls `visit(name, member)` for each, with `true` as third argument for
/// those that rows of earlier versions lack.
template <class Shape, class Visit>
void for_each_field(Shape& s, Visit&& visit) {
  visit("architecture", s.architecture);
  visit("name", s.name);
  visit("layers", s.layers);
  visit("width", s.width);
  visit("ff", s.ff);
  visit("heads", s.heads);
  visit("kv_heads", s.kv_heads);
  visit("head_dim", s.head_dim);
  visit("vocab", s.vocab);
  visit("context", s.context);
  visit("norm_eps", s.norm_eps);
  visit("rope_style", s.rope_style);
  visit("rope_dims", s.rope_dims);
  visit("rope_base", s.rope_base);
  visit("rope_scaling", s.rope_scaling);
  visit("rope_factor", s.rope_factor);
  visit("rope_original_context", s.rope_original_context);
  visit("tied_embeddings", s.tied_embeddings);
  visit("qkv_bias", s.qkv_bias);
  visit("qk_norm", s.qk_norm);
  visit("has_rope_freqs", s.has_rope_freqs);
  visit("has_chat_template", s.has_chat_template);
  visit("has_tokenizer", s.has_tokenizer);
  visit("weights_bytes", s.weights_bytes);
  visit("parameters", s.parameters);
  visit("file_type", s.file_type);
  visit("qk_norm_row", s.qk_norm_row, true);
  visit("experts", s.experts, true);
  visit("experts_used", s.experts_used, true);
  visit("expert_ff", s.expert_ff, true);
  visit("shared_ff", s.shared_ff, true);
  visit("dense_layers", s.dense_layers, true);
  visit("left_layers", s.left_layers, true);
  visit("rope_tables", s.rope_tables, true);
  visit("attention_step", s.attention_step, true);
  visit("state_heads", s.state_heads, true);
  visit("state_groups", s.state_groups, true);
  visit("state_key", s.state_key, true);
  visit("state_value", s.state_value, true);
  visit("conv_taps", s.conv_taps, true);
  visit("latent", s.latent, true);
  visit("q_latent", s.q_latent, true);
  visit("head_key", s.head_key, true);
  visit("head_value", s.head_value, true);
  visit("window_head_dim", s.window_head_dim, true);
  visit("window_kv_heads", s.window_kv_heads, true);
  visit("window_rope_dims", s.window_rope_dims, true);
  visit("window_layers", s.window_layers, true);
  visit("sharing_layers", s.sharing_layers, true);
  visit("layer_input", s.layer_input, true);
  visit("causal", s.causal, true);
  visit("load_bytes", s.load_bytes, true);
}

template <class T, std::size_t N>
const char* name_of(const std::pair<T, const char*> (&table)[N], T value) {
  for (const auto& [candidate, name] : table) {
    if (candidate == value) return name;
  }
  return "none";
}

struct ToJson {
  json& out;
  void operator()(const char* name, RopeStyle v) { out[name] = name_of(kStyles, v); }
  void operator()(const char* name, RopeScaling v) { out[name] = name_of(kScalings, v); }
  template <class T>
  void operator()(const char* name, const T& v, bool = false) {
    out[name] = v;
  }
};

struct FromJson {
  const json& in;
  std::string bad;  // the first field that is missing or of another type

  void operator()(const char* name, std::string& v) {
    if (const json* f = field(name, &json::is_string)) v = f->get<std::string>();
  }
  void operator()(const char* name, std::int64_t& v) {
    const json* f = field(name, &json::is_number_integer);
    if (!f) return;
    v = f->get<std::int64_t>();
    if (f->is_number_unsigned() && v < 0) fail(name);
  }
  void operator()(const char* name, std::uint64_t& v) {
    if (const json* f = field(name, &json::is_number_unsigned)) v = f->get<std::uint64_t>();
  }
  void operator()(const char* name, double& v) {
    if (const json* f = field(name, &json::is_number)) v = f->get<double>();
  }
  void operator()(const char* name, bool& v) {
    if (const json* f = field(name, &json::is_boolean)) v = f->get<bool>();
  }
  template <class T>
  void operator()(const char* name, T& v, bool later) {
    if (!later || in.contains(name)) (*this)(name, v);
  }
  void operator()(const char* name, RopeStyle& v) { from_name(name, kStyles, v); }
  void operator()(const char* name, RopeScaling& v) { from_name(name, kScalings, v); }

 private:
  void fail(const char* name) {
    if (bad.empty()) bad = name;
  }
  const json* field(const char* name, bool (json::*is)() const noexcept) {
    const auto found = in.find(name);
    if (found != in.end() && ((*found).*is)()) return &*found;
    fail(name);
    return nullptr;
  }
  template <class T, std::size_t N>
  void from_name(const char* name, const std::pair<T, const char*> (&table)[N], T& v) {
    const json* f = field(name, &json::is_string);
    if (!f) return;
    for (const auto& [value, candidate] : table) {
      if (f->get_ref<const std::string&>() == candidate) {
        v = value;
        return;
      }
    }
    fail(name);
  }
};

}  // namespace

std::string shape_to_json(const ModelShape& shape) {
  json out = json::object();
  for_each_field(shape, ToJson{out});
  // Names come from files: bytes that are not UTF-8 are replaced, and nothing is thrown.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<ModelShape> shape_from_json(std::string_view text) {
  const json in = try_parse_json<json>(text);
  if (!in.is_object()) return Error{Errc::kFileInvalid, "read model shape: not a JSON object"};
  ModelShape shape;
  FromJson read{in, ""};
  for_each_field(shape, read);
  if (!read.bad.empty()) {
    return Error{Errc::kFileInvalid,
                 "read model shape: field \"" + read.bad + "\" is missing or has another type"};
  }
  return shape;
}

}  // namespace holdfast::plan
