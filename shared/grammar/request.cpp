#include "shared/grammar/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::grammar {
namespace {

Error bad(const std::string& cause) {
  return {Errc::kInvalidRequest, "read grammar: " + cause};
}

Result<void> read_member(const std::string& name, const nlohmann::json& value,
                         GrammarRequest& request) {
  if (name == "finish" && value.is_boolean()) {
    request.finish = value.get<bool>();
    return {};
  }
  const bool recognised = name == "kind" || name == "source";
  if (!recognised || !value.is_string()) {
    return bad("expected only the texts \"kind\" and \"source\", and true or false as \"finish\"");
  }
  (name == "kind" ? request.kind : request.source) = value.get<std::string>();
  return {};
}

}  // namespace

std::string extra_of(const GrammarRequest& request) {
  nlohmann::json grammar = {{"kind", request.kind}};
  if (!request.source.empty()) grammar["source"] = request.source;
  if (request.finish) grammar["finish"] = true;
  return nlohmann::json{{"grammar", std::move(grammar)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::optional<GrammarRequest>> read_extra(std::string_view extra_json) {
  std::optional<GrammarRequest> none;
  if (extra_json.empty()) return none;
  const auto extra = try_parse_json<nlohmann::json>(extra_json);
  if (!extra.is_object()) return bad("the extra of sampling is no JSON object");
  const auto grammar = extra.find("grammar");
  if (grammar == extra.end() || grammar->is_null()) return none;
  if (!grammar->is_object()) return bad("expected {\"kind\": …, \"source\": …}");
  GrammarRequest request;
  for (const auto& [name, value] : grammar->items()) {
    HOLDFAST_CHECKED(read_member(name, value, request));
  }
  return std::optional<GrammarRequest>(std::move(request));
}

Result<GrammarPtr> compile(const GrammarRequest& request, const GrammarLimits& limits) {
  if (request.kind == "json_schema") return compile_json_schema(request.source, limits);
  if (request.kind == "tool_call") return compile_tool_call(request.source, limits);
  if (request.kind == "json_object") return compile_json_mode(limits);
  if (request.kind == "regex") return compile_regex(request.source, limits);
  if (request.kind == "gbnf") return compile_gbnf(request.source, limits);
  return bad("the kind '" + request.kind +
             "' is not known; expected json_schema, json_object, regex, gbnf or tool_call");
}

std::shared_ptr<TokenMasks> GrammarCache::lookup(const GrammarRequest& request) {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.request.kind == request.kind && entry.request.source == request.source;
  });
  if (at == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at);
  return entries_.front().masks;
}

void GrammarCache::insert(const GrammarRequest& request, std::shared_ptr<TokenMasks> masks) {
  entries_.push_front({request, std::move(masks)});
  while (entries_.size() > size_) entries_.pop_back();
}

Result<std::shared_ptr<TokenMasks>> GrammarCache::find(const GrammarRequest& request) {
  if (auto masks = lookup(request)) return masks;
  HOLDFAST_TRY(GrammarPtr grammar, compile(request));
  HOLDFAST_TRY(std::shared_ptr<TokenMasks> masks, TokenMasks::make(std::move(grammar), table_));
  insert(request, masks);
  return masks;
}

}  // namespace holdfast::grammar
