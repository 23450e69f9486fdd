#include "control/gateway/logprobs.h"

#include <limits>
#include <nlohmann/json.hpp>

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

/// The alternatives of a token: bytes and log-probability.
std::vector<std::pair<std::string, json>> top_of(const json& extra) {
  std::vector<std::pair<std::string, json>> out;
  if (!extra.is_object() || !extra.contains("top") || !extra["top"].is_array()) return out;
  for (const json& entry : extra["top"]) {
    if (!entry.is_array() || entry.size() < 2 || !entry[0].is_number_integer()) continue;
    std::string bytes;
    for (const json& byte : entry.size() == 3 ? entry[2] : json::array()) {
      if (byte.is_number_integer()) bytes.push_back(static_cast<char>(byte.get<int>()));
    }
    if (bytes.empty()) bytes = "token_id:" + std::to_string(entry[0].get<std::int64_t>());
    out.emplace_back(std::move(bytes), entry[1]);
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
    const json extra = json::parse(log.extra, nullptr, false);
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

json completion_logprobs(const std::vector<TokenLog>& logs) {
  json out;
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    out[name] = json::array();
  }
  for (const TokenLog& log : logs) {
    const json extra = json::parse(log.extra, nullptr, false);
    out["tokens"].push_back(clean_utf8(log.bytes));
    out["token_logprobs"].push_back(logprob_of(extra));
    json top = json::object();
    // Two tokens can have one text: the more likely one comes first.
    for (auto& [bytes, logprob] : top_of(extra)) top.emplace(clean_utf8(bytes), std::move(logprob));
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(log.offset);
  }
  return out;
}

}  // namespace

double mean_logprob(const std::vector<TokenLog>& logs) {
  double sum = 0;
  for (const TokenLog& log : logs) {
    const json value = logprob_of(json::parse(log.extra, nullptr, false));
    sum += value.is_number() ? value.get<double>() : std::numeric_limits<double>::lowest() / 1e6;
  }
  return logs.empty() ? std::numeric_limits<double>::lowest()
                      : sum / static_cast<double>(logs.size());
}

std::string logprobs_json(Api api, const std::vector<TokenLog>& logs) {
  const json out = api == Api::kChat ? chat_logprobs(logs) : completion_logprobs(logs);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace holdfast::gateway
