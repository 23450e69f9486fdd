#include "control/endpoints/detokenizers.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/wire/prompt_scores.h"

namespace holdfast::daemon {
namespace {

/// Adds token bytes to alternatives, as the sampler knows them by their ids alone: each [id,
/// logprob] of "top" becomes [id, logprob, [byte, …]], where the vocabulary has bytes for it.
std::string with_bytes(std::string extra, const text::DetokenizerTable& detokenizer) {
  auto log = try_parse_json<nlohmann::json>(extra);
  if (!log.is_object() || !log.contains("top") || !log["top"].is_array()) return extra;
  for (nlohmann::json& entry : log["top"]) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number_integer()) continue;
    const auto id = entry[0].get<text::TokenId>();
    const auto token_bytes = token_bytes_or_name(detokenizer, id);
    if (token_bytes.empty()) continue;
    entry.push_back(std::vector<std::uint8_t>(token_bytes.begin(), token_bytes.end()));
  }
  return log.dump();
}

/// Adds the bytes of the tokens of a prompt and of their alternatives.
void add_token_bytes(wire::PromptScores& scores, const text::DetokenizerTable& detokenizer) {
  // A long prompt has half a million ids, most of them repeated.
  std::vector<bool> present(static_cast<std::size_t>(detokenizer.size()));
  const auto add = [&](text::TokenId id) {
    if (id < 0 || id >= detokenizer.size() || present[static_cast<std::size_t>(id)]) return;
    present[static_cast<std::size_t>(id)] = true;
    scores.token_bytes[id] = {std::string(token_bytes_or_name(detokenizer, id)),
                              detokenizer.is_control(id)};
  };
  for (const text::TokenId id : scores.ids) add(id);
  for (const auto& alternative : scores.alternatives) add(alternative.id);
}

/// The `extra` of a token, with the bytes of all ids in it.
std::string with_token_bytes(std::string extra, const text::DetokenizerTable& detokenizer) {
  auto scores = wire::take_prompt_scores(extra);
  if (!scores) return with_bytes(std::move(extra), detokenizer);
  add_token_bytes(*scores, detokenizer);
  return wire::with_prompt_scores(with_bytes(std::move(extra), detokenizer), *scores);
}

}  // namespace

const text::DetokenizerTable* DetokenizerCache::table(const std::string& model_sha) {
  const auto present = tables_.find(model_sha);
  if (present != tables_.end()) return present->second.get();
  std::unique_ptr<text::DetokenizerTable> table;
  auto blobs = store_.model_blobs(model_sha);
  if (!blobs) {
    log::error("read pieces", {{"model_sha", model_sha}, {"why", blobs.error().what}});
  } else if (!blobs->detokenizer.empty()) {
    auto parsed = text::DetokenizerTable::parse(std::move(blobs->detokenizer));
    if (parsed) {
      table = std::make_unique<text::DetokenizerTable>(std::move(parsed).value());
    } else {
      log::error("read pieces", {{"model_sha", model_sha}, {"why", parsed.error().what}});
    }
  }
  return (tables_[model_sha] = std::move(table)).get();
}

void DetokenizerCache::fill(const std::string& model_sha, wire::Event& event) {
  const text::DetokenizerTable* detokenizer = table(model_sha);
  event.bytes.clear();
  event.ends.clear();
  event.special.clear();
  event.ends.reserve(event.ids.size());
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    if (detokenizer != nullptr) event.bytes += detokenizer->token_bytes(event.ids[i]);
    event.ends.push_back(static_cast<std::uint32_t>(event.bytes.size()));
    if (detokenizer != nullptr && i < event.extra.size() && !event.extra[i].empty()) {
      event.extra[i] = with_token_bytes(std::move(event.extra[i]), *detokenizer);
    }
    if (detokenizer == nullptr || !detokenizer->is_control(event.ids[i])) continue;
    event.special.resize(event.ids.size());
    event.special[i] = detokenizer->control_text(event.ids[i]);
  }
}

}  // namespace holdfast::daemon
