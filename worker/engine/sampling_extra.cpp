#include <charconv>
#include <nlohmann/json.hpp>

#include "worker/engine/sampler.h"

namespace holdfast::engine {

namespace {

Error bad(const std::string& cause) {
  return {Errc::kInvalidRequest, "read sampling extra: " + cause};
}

}  // namespace

Result<SamplingExtra> parse_extra(const std::string& text, std::int32_t vocab) {
  SamplingExtra extra;
  if (text.empty()) return extra;
  const auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object()) return bad("expected a JSON object");
  for (const auto& [key, value] : j.items()) {
    if (value.is_null() || key == "grammar") continue;  // shared/grammar/request.h reads that
    if (key != "logit_bias") {
      return Error{Errc::kUnsupported, "read sampling extra: this engine does not know " + key};
    }
    if (!value.is_object()) return bad("logit_bias: expected an object of token ids to numbers");
    for (const auto& [name, bias] : value.items()) {
      TokenId id = -1;
      const auto r = std::from_chars(name.data(), name.data() + name.size(), id);
      if (r.ec != std::errc{} || r.ptr != name.data() + name.size() || id < 0 || id >= vocab) {
        return bad("logit_bias: token id " + name + "; expected 0 to " + std::to_string(vocab - 1));
      }
      if (!bias.is_number()) return bad("logit_bias: expected a number for token " + name);
      const auto v = bias.get<double>();
      if (!(v >= -1000 && v <= 1000))
        return bad("logit_bias of " + name + "; expected -1000 to 1000");
      extra.logit_bias.emplace_back(id, static_cast<float>(v));
    }
  }
  return extra;
}

}  // namespace holdfast::engine
