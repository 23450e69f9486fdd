#include "control/endpoints/tokenize_service.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/base/base64.h"
#include "shared/base/json_text.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

// Jobs of the machine count from 1; this bit marks those of the service.
constexpr std::uint64_t kTokenizeJobBit = std::uint64_t{1} << 62;
constexpr std::int64_t kQuestionBytes = 256;  // cost of a question in addition to its text

/// The model of that name, or the one that gets most of an alias' requests; without a name the only
/// one.
const core::ModelRow* find_model(const core::Machine& machine, const std::string& name) {
  const auto& models = machine.registry().models();
  if (name.empty()) return models.size() == 1 ? &models.begin()->second.row : nullptr;
  const auto alias = machine.aliases().all().find(name);
  std::string target = name;
  if (alias != machine.aliases().all().end()) {
    const auto& targets = alias->second.row.targets;
    target = std::max_element(targets.begin(), targets.end(), [](const auto& a, const auto& b) {
               return a.weight < b.weight;
             })->model;
  }
  const auto model = models.find(target);
  return model == models.end() ? nullptr : &model->second.row;
}

/// Reads "ids": [1, 2]; nullopt if it is something else.
std::optional<std::vector<wire::TokenId>> read_ids(const json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<wire::TokenId> ids;
  ids.reserve(value.size());
  for (const json& id : value) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) return std::nullopt;
    ids.push_back(id.get<wire::TokenId>());
  }
  return ids;
}

/// Reads the prompt of a question. Returns false if there is none; `wrong` says why.
bool read_prompt(const std::string& verb, const json& args, wire::Prompt* prompt,
                 std::string* wrong) {
  if (verb == "models.detokenize") {
    prompt->ids = args.contains("ids") ? read_ids(args["ids"]) : std::nullopt;
    *wrong = "'ids' must be an array of token ids";
    return prompt->ids.has_value();
  }
  const bool text = args.contains("text") && args["text"].is_string();
  const bool chat = args.contains("messages_json") && args["messages_json"].is_string();
  *wrong = "exactly one of 'text' and 'messages_json' is wanted, as a string";
  if (text == chat) return false;
  (text ? prompt->text : prompt->messages_json) = args[text ? "text" : "messages_json"];
  return true;
}

bool read_flag(const json& args, const char* name, bool otherwise) {
  const auto found = args.find(name);
  return found != args.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

/// A text of the arguments; empty if there is none of that name.
std::string text_member(const json& args, const char* name) {
  const auto found = args.find(name);
  return found != args.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Adds the bytes of each token; packed: all bytes in base64, and the offset where each ends.
void add_token_bytes(const text::DetokenizerTable& detokenizer,
                     const std::vector<wire::TokenId>& ids, bool packed, json& document) {
  std::string bytes;
  json ends = json::array();
  json list = json::array();
  for (const wire::TokenId id : ids) {
    const auto token_bytes = detokenizer.name(id);
    if (packed) {
      bytes.append(token_bytes.begin(), token_bytes.end());
      ends.push_back(bytes.size());
    } else {
      list.push_back(std::vector<std::uint8_t>(token_bytes.begin(), token_bytes.end()));
    }
  }
  if (packed) {
    document["piece_bytes"] = to_base64(bytes);
    document["piece_ends"] = std::move(ends);
  } else {
    document["pieces"] = std::move(list);
  }
}

/// Renders the object with its ids. A JSON value for each id would cost the daemon's only thread
/// several times as much, and a question may have a million.
std::string with_ids(const json& document, const std::vector<wire::TokenId>& ids) {
  std::string text = document.dump();
  text.pop_back();
  text += ",\"ids\":[";
  char digits[16];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) text += ',';
    text.append(digits, std::to_chars(digits, digits + sizeof digits, ids[i]).ptr);
  }
  return text + "]}";
}

/// Packs each id as four bytes, the lowest first, in base64.
std::string pack_ids(const std::vector<wire::TokenId>& ids) {
  std::string bytes;
  bytes.reserve(ids.size() * sizeof(std::uint32_t));
  for (const wire::TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(static_cast<std::uint32_t>(id) >> shift));
    }
  }
  return to_base64(bytes);
}

bool nothing_in(const wire::Prompt& prompt) {
  return prompt.ids ? prompt.ids->empty() : prompt.text && prompt.text->empty();
}

}  // namespace

void TokenizeService::refuse(core::PeerId peer, std::uint64_t tag, Errc code, std::string message) {
  wire::Refusal refusal;
  refusal.code = code;
  refusal.message = std::move(message);
  if (code == Errc::kTimeout || code == Errc::kRateLimited) refusal.retry_after_ms = 1'000;
  send_(peer, wire::OpResult{tag, false, std::move(refusal), {}, {}});
}

/// Counts a question against its API key, before any work is done. Returns false if it was refused.
bool TokenizeService::charge(core::PeerId peer, const wire::Op& op, const json& args,
                             std::int64_t now_us) {
  wire::Submit submission;  // as the limiter takes it
  if (args.contains("api_key") && args["api_key"].is_string()) submission.api_key = args["api_key"];
  const auto limit = args.find("key_requests_per_minute");
  if (limit != args.end() && limit->is_number_integer()) {
    submission.key_requests_per_minute = limit->get<std::int64_t>();
  }
  if (auto refusal = keys_.refuse(submission, now_us)) {
    send_(peer, wire::OpResult{op.tag, false, std::move(*refusal), {}, {}});
    return false;
  }
  if (!submission.key_requests_per_minute) return true;
  keys_.preparing(submission.api_key, now_us);
  keys_.prepared(submission.api_key);
  return true;
}

/// The job that a helper does for the question; without the prompt.
TokenizeService::Question TokenizeService::question_of(core::PeerId peer, const wire::Op& op,
                                                       const json& args,
                                                       const core::ModelRow& model) {
  Question question;
  question.peer = peer;
  question.tag = op.tag;
  question.verb = op.verb;
  question.with_token_bytes = read_flag(args, "pieces", false);
  question.packed = read_flag(args, "packed", false);
  question.packed_ids = read_flag(args, "packed_ids", false);
  question.tokens_max = question.with_token_bytes ? kTokensWithBytesMax : kTokensMax;
  question.model = model.name;
  question.context = model.context;
  question.job.job = ++last_job_ | kTokenizeJobBit;
  question.job.model_sha = model.sha;
  question.job.profile = model.profile;
  question.job.add_special = read_flag(args, "add_special", true);
  question.job.parse_special = read_flag(args, "parse_special", true);
  question.job.echo = question.job.names = op.verb == "models.detokenize";
  question.tenant = text_member(args, "tenant");
  question.bytes = static_cast<std::int64_t>(op.args.size()) + kQuestionBytes;
  return question;
}

void TokenizeService::ask(core::PeerId peer, const wire::Op& op, const core::Machine& machine,
                          std::int64_t now_us) {
  const json args = try_parse_json<json>(op.args);
  std::string wrong = "arguments are not a JSON object";
  wire::Prompt prompt;
  if (!args.is_object() || !read_prompt(op.verb, args, &prompt, &wrong)) {
    return refuse(peer, op.tag, Errc::kInvalidRequest, op.verb + ": " + wrong);
  }
  const std::string name = text_member(args, "model");
  const core::ModelRow* model = find_model(machine, name);
  if (model == nullptr && name.empty()) {
    return refuse(peer, op.tag, Errc::kInvalidRequest,
                  "'model' is required: there is not exactly one model");
  }
  if (model == nullptr) {
    return refuse(peer, op.tag, Errc::kModelNotFound, "model '" + name + "' is not registered");
  }
  if (questions_.size() >= kQuestionsMax && !make_way(text_member(args, "tenant"))) {
    return refuse(peer, op.tag, Errc::kRateLimited,
                  op.verb + ": " + std::to_string(kQuestionsMax) + " are being answered already");
  }
  if (!charge(peer, op, args, now_us)) return;
  Question question = question_of(peer, op, args, *model);
  question.deadline_us = now_us + machine.config().ingress_timeout_ms * 1000;
  question.tries_max = machine.config().ingress_tries;
  question.empty = nothing_in(prompt);
  question.job.prompts = {std::move(prompt)};
  line_.push(question.tenant, question.job.job, question.bytes);
  questions_.emplace(question.job.job, std::move(question));
  assign();
}

/// Refuses the newest question of the tenant that has most in line, for one that has fewer. Returns
/// false if there is no such tenant.
bool TokenizeService::make_way(const std::string& tenant) {
  const auto job = line_.newest_of_longest(line_.size(tenant) + 1);
  if (!job) return false;
  const auto found = questions_.find(*job);
  refuse(found->second.peer, found->second.tag, Errc::kRateLimited,
         found->second.verb + ": " + std::to_string(kQuestionsMax) +
             " are being answered already, most of them of this tenant");
  line_.remove(*job);
  questions_.erase(found);
  return true;
}

/// Gives waiting questions to the helper with the fewest, so few at a time that none waits long for
/// those of other tenants.
void TokenizeService::assign() {
  while (const auto given = helpers_.assign(line_)) {
    Question& question = questions_.at(given->first);
    question.helper = given->second;
    ++question.tries;
    send_(question.helper, question.job);
  }
}

void TokenizeService::helper_up(core::PeerId helper) {
  helpers_.add(helper);
  assign();
}

bool TokenizeService::prepared(core::PeerId helper, const wire::Prepared& prepared) {
  if ((prepared.job & kTokenizeJobBit) == 0) return false;
  const auto found = questions_.find(prepared.job);
  if (found == questions_.end() || found->second.helper != helper) return true;  // too late
  const Question question = std::move(found->second);
  questions_.erase(found);
  helpers_.leave(helper, prepared.job);
  assign();
  answer(question, prepared);
  return true;
}

void TokenizeService::refuse_long(const Question& question, std::int64_t tokens) {
  wire::Refusal refusal;
  refusal.code = Errc::kInvalidRequest;
  refusal.message = question.verb + ": " + std::to_string(tokens) + " tokens, at most " +
                    std::to_string(question.tokens_max) +
                    (question.with_token_bytes ? " are told with their pieces" : " are told");
  refusal.needed = tokens;
  refusal.largest = question.tokens_max;
  send_(question.peer, wire::OpResult{question.tag, false, std::move(refusal), {}, {}});
}

void TokenizeService::answer(const Question& question, const wire::Prepared& prepared) {
  const text::DetokenizerTable* detokenizer = detokenizers_.table(question.job.model_sha);
  const bool nothing = question.empty && !prepared.ok && detokenizer != nullptr;
  if (!prepared.ok && !nothing) {
    send_(question.peer, wire::OpResult{question.tag, false, prepared.refusal, {}, {}});
    return;
  }
  json document = {{"model", question.model}, {"context", question.context}};
  if (question.verb == "models.detokenize") {
    document["text"] = prepared.text.empty() ? "" : prepared.text[0];
    return send_(question.peer, wire::OpResult{question.tag, true, {}, document.dump(), {}});
  }
  const std::vector<wire::TokenId> none;
  answer_ids(question, prepared.ids.empty() ? none : prepared.ids[0], detokenizer, document);
}

void TokenizeService::answer_ids(const Question& question, const std::vector<wire::TokenId>& ids,
                                 const text::DetokenizerTable* detokenizer, json& document) {
  if (std::ssize(ids) > question.tokens_max) return refuse_long(question, std::ssize(ids));
  if (question.with_token_bytes && detokenizer != nullptr) {
    add_token_bytes(*detokenizer, ids, question.packed, document);
  }
  if (question.packed_ids) document["id_bytes"] = pack_ids(ids);
  send_(question.peer,
        wire::OpResult{question.tag,
                       true,
                       {},
                       question.packed_ids ? document.dump() : with_ids(document, ids),
                       {}});
}

void TokenizeService::peer_gone(core::PeerId peer) {
  std::erase_if(questions_, [&](const auto& entry) {
    if (entry.second.peer != peer) return false;
    helpers_.leave(entry.second.helper, entry.first);
    line_.remove(entry.first);
    return true;
  });
  if (!helpers_.has(peer)) return assign();
  helpers_.remove(peer);
  for (auto it = questions_.begin(); it != questions_.end();) {
    Question& question = it->second;
    if (question.helper == peer) {
      question.helper = 0;
      if (question.tries >= question.tries_max) {
        refuse(question.peer, question.tag, Errc::kTimeout,
               question.verb + ": the ingress helper died over it, " +
                   std::to_string(question.tries) + " times");
        it = questions_.erase(it);
        continue;
      }
      line_.push(question.tenant, it->first, question.bytes);
    }
    ++it;
  }
  assign();
}

void TokenizeService::expire(std::int64_t now_us) {
  std::erase_if(questions_, [&](const auto& entry) {
    const Question& question = entry.second;
    if (now_us < question.deadline_us) return false;
    refuse(question.peer, question.tag, Errc::kTimeout,
           question.verb + (question.helper != 0 ? ": the ingress helper took too long"
                            : helpers_.empty()   ? ": no ingress helper is connected"
                                                 : ": the ingress helpers were busy for too long"));
    helpers_.leave(question.helper, entry.first);
    line_.remove(entry.first);
    return true;
  });
  assign();
}

}  // namespace holdfast::daemon
