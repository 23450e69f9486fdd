#include "control/link/pieces.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/wire/prompt_scores.h"

namespace holdfast::link {
namespace {

/// The sampler knows alternatives by their ids alone: each [id, logprob] of "top" gets its bytes,
/// [id, logprob, [byte, …]], where the vocabulary has any for it.
std::string with_bytes(std::string extra, const text::PieceTable& pieces) {
  auto log = try_parse_json<nlohmann::json>(extra);
  if (!log.is_object() || !log.contains("top") || !log["top"].is_array()) return extra;
  for (nlohmann::json& entry : log["top"]) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number_integer()) continue;
    const auto id = entry[0].get<text::TokenId>();
    const auto piece = token_bytes(pieces, id);
    if (piece.empty()) continue;
    entry.push_back(std::vector<std::uint8_t>(piece.begin(), piece.end()));
  }
  return log.dump();
}

/// The same for the tokens of a prompt and their alternatives.
void add_pieces(wire::PromptScores& scores, const text::PieceTable& pieces) {
  // They are many, and mostly the same: half a million of a long prompt.
  std::vector<bool> known(static_cast<std::size_t>(pieces.size()));
  const auto add = [&](text::TokenId id) {
    if (id < 0 || id >= pieces.size() || known[static_cast<std::size_t>(id)]) return;
    known[static_cast<std::size_t>(id)] = true;
    scores.pieces[id] = {std::string(token_bytes(pieces, id)), pieces.is_control(id)};
  };
  for (const text::TokenId id : scores.ids) add(id);
  for (const auto& alternative : scores.alternatives) add(alternative.id);
}

/// `extra` of a token, with all that the vocabulary can say of the ids in it.
std::string dressed(std::string extra, const text::PieceTable& pieces) {
  auto scores = wire::take_prompt_scores(extra);
  if (!scores) return with_bytes(std::move(extra), pieces);
  add_pieces(*scores, pieces);
  return wire::with_prompt_scores(with_bytes(std::move(extra), pieces), *scores);
}

}  // namespace

const text::PieceTable* PieceCache::table(const std::string& model_sha) {
  const auto known = tables_.find(model_sha);
  if (known != tables_.end()) return known->second.get();
  std::unique_ptr<text::PieceTable> table;
  auto blobs = store_.model_blobs(model_sha);
  if (!blobs) {
    log::error("read pieces", {{"model_sha", model_sha}, {"why", blobs.error().what}});
  } else if (!blobs->pieces.empty()) {
    auto parsed = text::PieceTable::parse(std::move(blobs->pieces));
    if (parsed) {
      table = std::make_unique<text::PieceTable>(std::move(parsed).value());
    } else {
      log::error("read pieces", {{"model_sha", model_sha}, {"why", parsed.error().what}});
    }
  }
  return (tables_[model_sha] = std::move(table)).get();
}

void PieceCache::fill(const std::string& model_sha, wire::Event& event) {
  const text::PieceTable* pieces = table(model_sha);
  event.bytes.clear();
  event.ends.clear();
  event.special.clear();
  event.ends.reserve(event.ids.size());
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    if (pieces != nullptr) event.bytes += pieces->piece(event.ids[i]);
    event.ends.push_back(static_cast<std::uint32_t>(event.bytes.size()));
    if (pieces != nullptr && i < event.extra.size() && !event.extra[i].empty()) {
      event.extra[i] = dressed(std::move(event.extra[i]), *pieces);
    }
    if (pieces == nullptr || !pieces->is_control(event.ids[i])) continue;
    event.special.resize(event.ids.size());
    event.special[i] = pieces->control_text(event.ids[i]);
  }
}

}  // namespace holdfast::link
