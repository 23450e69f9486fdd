#include "worker/engine/fake_script.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast::engine {

namespace {

using nlohmann::json;
using text::TokenId;
using text::Tokenizer;

constexpr std::size_t kPromptTailBytes = 200;  // bytes of a prompt that an error shows

Error bad_turn(std::size_t index, const std::string& what) {
  return {Errc::kInvalidRequest,
          "open fake engine: script: turn " + std::to_string(index) + ": " + what};
}

Result<ScriptTurn> parse_turn(const json& j, std::size_t index) {
  if (!j.is_object() || !j.contains("say") || !j["say"].is_string()) {
    return bad_turn(index, "expected {\"when\": TEXT or [TEXT, ...], \"say\": TEXT}");
  }
  ScriptTurn turn;
  turn.say = j["say"].get<std::string>();
  for (const auto& [name, value] : j.items()) {
    if (name == "say") continue;
    if (name != "when") return bad_turn(index, "unknown field \"" + name + "\"");
    for (const json& text : value.is_array() ? value : json::array({value})) {
      if (!text.is_string()) return bad_turn(index, "\"when\" is a text or a list of texts");
      turn.when.push_back(text.get<std::string>());
    }
  }
  return turn;
}

/// Appends the tokens of a text without special tokens, by a tokenizer that puts a space in front
/// of it: the text gets a line end for that space, and both are taken off again.
Result<void> encode_run(const std::string& run, const Tokenizer& tokenizer,
                        std::vector<TokenId>* out) {
  if (run.empty()) return {};
  HOLDFAST_TRY(const std::vector<TokenId> ids,
               tokenizer.encode("\n" + run, {.add_special = false, .parse_special = false}));
  std::string front;
  std::size_t taken = 0;
  while (taken < ids.size() && front.find('\n') == std::string::npos) {
    front += tokenizer.token_bytes(ids[taken++]);
  }
  out->insert(out->end(), ids.begin() + static_cast<std::ptrdiff_t>(taken), ids.end());
  return {};
}

/// Encodes a text with special tokens by their names, as a model writes: no space that is not in
/// the text stands at its beginning or after a special token.
Result<std::vector<TokenId>> encode_unprefixed(const std::string& say, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  std::string run;
  for (std::size_t at = 0; at < say.size();) {
    bool open = false;
    const TokenId special = tokenizer.special_at(say, at, &open);
    const std::string_view name = special < 0 ? "" : tokenizer.token_bytes(special, true);
    if (name.empty()) {
      run.push_back(say[at++]);
      continue;
    }
    HOLDFAST_CHECKED(encode_run(std::exchange(run, {}), tokenizer, &ids));
    ids.push_back(special);
    at += name.size();
  }
  HOLDFAST_CHECKED(encode_run(run, tokenizer, &ids));
  return ids;
}

/// The tokens of a text that follows others.
Result<std::vector<TokenId>> encode_said(const std::string& say, const Tokenizer& tokenizer,
                                         std::size_t index) {
  text::EncodeOptions options;
  options.add_special = false;
  HOLDFAST_TRY(std::vector<TokenId> ids, tokenizer.adds_space_prefix()
                                             ? encode_unprefixed(say, tokenizer)
                                             : tokenizer.encode(say, options));
  const std::string back = text::decode(tokenizer, ids, true, false);
  if (back == say) return ids;
  return Error{Errc::kUnsupported, "open fake engine: script: turn " + std::to_string(index) +
                                       ": the tokenizer makes \"" + back + "\" of \"" + say + "\""};
}

}  // namespace

Result<std::vector<ScriptTurn>> parse_script(const json& turns) {
  if (!turns.is_array()) {
    return Error{Errc::kInvalidRequest, "open fake engine: script is no list of turns"};
  }
  std::vector<ScriptTurn> script;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    HOLDFAST_TRY(ScriptTurn turn, parse_turn(turns[i], i));
    script.push_back(std::move(turn));
  }
  return script;
}

Result<FakeScript> FakeScript::make(const std::vector<ScriptTurn>& turns,
                                    const Tokenizer& tokenizer) {
  if (tokenizer.eos() < 0) {
    return Error{Errc::kUnsupported,
                 "open fake engine: script: the tokenizer has no end token to end a turn with"};
  }
  FakeScript script;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    HOLDFAST_TRY(std::vector<TokenId> ids, encode_said(turns[i].say, tokenizer, i));
    if (ids.empty() || !tokenizer.is_end(ids.back())) ids.push_back(tokenizer.eos());
    script.turns_.push_back({turns[i].when, std::move(ids)});
  }
  return script;
}

Result<const std::vector<TokenId>*> FakeScript::answer(const std::vector<TokenId>& prompt,
                                                       const Tokenizer& tokenizer) const {
  const std::string text = text::decode(tokenizer, prompt, true, true);
  for (auto turn = turns_.rbegin(); turn != turns_.rend(); ++turn) {
    const bool fits =
        std::all_of(turn->when.begin(), turn->when.end(),
                    [&](const std::string& part) { return text.find(part) != std::string::npos; });
    if (fits) return &turn->ids;
  }
  return Error{
      Errc::kInvalidRequest,
      "no turn of the script fits a prompt that ends with \"" +
          text.substr(text.size() > kPromptTailBytes ? text.size() - kPromptTailBytes : 0) + "\""};
}

std::string FakeScript::name() const {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto add = [&hash](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const Turn& turn : turns_) {
    for (const std::string& part : turn.when) {
      for (const char c : part) add(static_cast<unsigned char>(c));
      add(0x100);  // no byte: parts end here
    }
    for (const TokenId id : turn.ids) add(0x200 + static_cast<std::uint64_t>(id));
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace holdfast::engine
