#include "control/gateway/common/logprobs.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

json logprob_of(const json& entry) {
  const auto found = entry.is_object() ? entry.find("logprob") : entry.end();
  return entry.is_object() && found != entry.end() && found->is_number() ? *found : json();
}

json bytes_of(const std::string& text) {
  json out = json::array();
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

/// Returns the bytes of an alternative, [id, log-probability, bytes]; without bytes a name for it.
std::string bytes_of_alternative(const json& entry) {
  std::string bytes;
  for (const json& byte : entry.size() == 3 ? entry[2] : json::array()) {
    if (byte.is_number_integer()) bytes.push_back(static_cast<char>(byte.get<int>()));
  }
  if (bytes.empty()) bytes = "token_id:" + std::to_string(entry[0].get<std::int64_t>());
  return bytes;
}

/// Returns the alternatives of a token: bytes and log-probability.
std::vector<std::pair<std::string, json>> top_of(const json& extra) {
  std::vector<std::pair<std::string, json>> out;
  if (!extra.is_object() || !extra.contains("top") || !extra["top"].is_array()) return out;
  for (const json& entry : extra["top"]) {
    if (!entry.is_array() || entry.size() < 2 || !entry[0].is_number_integer()) continue;
    out.emplace_back(bytes_of_alternative(entry), entry[1]);
  }
  return out;
}

json chat_entry(const std::string& token, const json& logprob, const std::string& bytes) {
  json out;
  out["token"] = token;
  out["logprob"] = logprob;
  out["bytes"] = bytes_of(bytes);
  return out;
}

json chat_logprobs(const std::vector<TokenLog>& logs) {
  json content = json::array();
  for (const TokenLog& log : logs) {
    const json extra = try_parse_json<json>(log.extra);
    json entry = chat_entry(clean_utf8(log.bytes), logprob_of(extra), log.bytes);
    json top = json::array();
    for (const auto& [bytes, logprob] : top_of(extra)) {
      top.push_back(chat_entry(clean_utf8(bytes), logprob, bytes));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  json out;
  out["content"] = std::move(content);
  return out;
}

/// Rounds to the digits that the float needs, so that it prints as the other tokens' numbers do.
double number_of(float logprob) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, logprob).ptr;
  double number = 0;
  std::from_chars(text, end, number);
  return number;
}

std::string token_text_of(const wire::PromptScores& scores, wire::TokenId id) {
  const auto found = scores.token_bytes.find(id);
  return found == scores.token_bytes.end() || found->second.bytes.empty()
             ? "token_id:" + std::to_string(id)
             : clean_utf8(found->second.bytes);
}

void append_prompt(const EchoLog& echo, json& out) {
  const wire::PromptScores& scores = *echo.scores;
  const std::vector<std::int64_t> offsets = prompt_offsets(echo.text, scores);
  for (std::size_t i = 0; i < scores.ids.size(); ++i) {
    out["tokens"].push_back(token_text_of(scores, scores.ids[i]));
    out["text_offset"].push_back(offsets[i]);
    out["token_logprobs"].push_back(i == 0 ? json()
                                           : json(number_of(scores.scores[i - 1].logprob)));
    json top;  // null for the first token
    for (std::int32_t k = 0; i > 0 && k < std::min(echo.top, scores.top); ++k) {
      const auto& [id, logprob] = scores.top_of(i)[k];
      top.emplace(token_text_of(scores, id), number_of(logprob));
    }
    if (i > 0 && top.is_null()) top = json::object();
    out["top_logprobs"].push_back(std::move(top));
  }
}

json completion_logprobs(const std::vector<TokenLog>& logs, const EchoLog& echo) {
  json out;
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    out[name] = json::array();
  }
  if (echo.scores != nullptr) append_prompt(echo, out);
  const std::int64_t before = count_characters(echo.text);
  for (const TokenLog& log : logs) {
    const json extra = try_parse_json<json>(log.extra);
    out["tokens"].push_back(clean_utf8(log.bytes));
    out["token_logprobs"].push_back(logprob_of(extra));
    json top = json::object();
    // Two tokens can have the same text: the more likely one comes first and stays.
    for (auto& [bytes, logprob] : top_of(extra)) top.emplace(clean_utf8(bytes), std::move(logprob));
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(before + log.offset);
  }
  return out;
}

}  // namespace

double mean_logprob(const std::vector<TokenLog>& logs) {
  double sum = 0;
  for (const TokenLog& log : logs) {
    const json value = logprob_of(try_parse_json<json>(log.extra));
    sum += value.is_number() ? value.get<double>() : std::numeric_limits<double>::lowest() / 1e6;
  }
  return logs.empty() ? std::numeric_limits<double>::lowest()
                      : sum / static_cast<double>(logs.size());
}

namespace {

/// The bytes of a token as they are at the beginning of `rest`: SentencePiece puts a space in front
/// of a text.
std::string_view bytes_in_text(std::string_view bytes, std::string_view rest) {
  if (bytes.starts_with(' ') && !rest.starts_with(bytes)) bytes.remove_prefix(1);
  return bytes;
}

}  // namespace

std::vector<std::int64_t> prompt_offsets(std::string_view text, const wire::PromptScores& scores) {
  constexpr std::size_t kFar = 64;  // most bytes of text between two found tokens
  std::vector<std::int64_t> offsets;
  std::size_t at = 0;
  std::int64_t characters = 0;
  const auto go_to = [&](std::size_t to) {
    characters += count_characters(text.substr(at, to - at));
    at = to;
  };
  for (const wire::TokenId id : scores.ids) {
    const auto entry = scores.token_bytes.find(id);
    std::string_view bytes;
    if (entry != scores.token_bytes.end()) {
      bytes = bytes_in_text(entry->second.bytes, text.substr(at));
    }
    const bool whole = text.substr(at).starts_with(bytes);
    const std::size_t found = whole ? at : text.substr(0, at + kFar + bytes.size()).find(bytes, at);
    const bool control = entry != scores.token_bytes.end() && entry->second.control;
    if (!control && found != std::string_view::npos) go_to(found);
    offsets.push_back(characters);
    if (whole || !control) go_to(std::min(text.size(), at + bytes.size()));
  }
  return offsets;
}

std::string prompt_logprobs_json(const wire::PromptScores& scores, std::int32_t top) {
  json out = json::array();
  for (std::size_t i = 0; i < scores.ids.size(); ++i) {
    json entry;  // null for the first token
    const auto add = [&](wire::TokenId id, float logprob, std::int32_t rank) {
      entry.emplace(std::to_string(id), json{{"logprob", number_of(logprob)},
                                             {"rank", rank},
                                             {"decoded_token", token_text_of(scores, id)}});
    };
    if (i > 0) add(scores.ids[i], scores.scores[i - 1].logprob, scores.scores[i - 1].rank);
    for (std::int32_t k = 0; i > 0 && k < std::min(top, scores.top); ++k) {
      add(scores.top_of(i)[k].id, scores.top_of(i)[k].logprob, k + 1);
    }
    out.push_back(std::move(entry));
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string logprobs_json(Api api, const std::vector<TokenLog>& logs, const EchoLog& echo) {
  const json out = api == Api::kChat ? chat_logprobs(logs) : completion_logprobs(logs, echo);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace holdfast::gateway
