#include "control/ingress/prepare.h"

#include <algorithm>
#include <ctime>

#include "control/ingress/chat.h"
#include "shared/base/bytes.h"
#include "shared/gguf/gguf.h"
#include "shared/jinja/chat_template.h"
#include "shared/text/releaser.h"

namespace holdfast::ingress {
namespace {

struct Rendered {
  std::vector<text::TokenId> ids;
  std::string text;
  std::vector<std::string> notes;
};

Error invalid(std::string what) {
  return {Errc::kInvalidRequest, std::move(what)};
}

/// Adds the prompt's index to the error if there are several prompts.
Error name_prompt(Error error, std::size_t i, std::size_t prompts) {
  constexpr std::string_view kPrompt = "prompt";
  if (prompts > 1 && error.what.starts_with(kPrompt)) {
    error.what.insert(kPrompt.size(), "[" + std::to_string(i) + "]");
  }
  return error;
}

/// End of the well-formed text from `good` on, at `middle` or up to three bytes before; `good` if
/// there is none.
std::size_t good_end(std::string_view text, std::size_t good, std::size_t middle) {
  std::size_t cut = middle;
  while (cut > good && middle - cut < 4 && !is_valid_utf8(text.substr(good, cut - good))) --cut;
  return cut > good && is_valid_utf8(text.substr(good, cut - good)) ? cut : good;
}

/// Bytes of the character at `at`; 0 if none is there.
std::size_t character_size(std::string_view text, std::size_t at) {
  for (std::size_t n = 1; n <= 4 && at + n <= text.size(); ++n) {
    if (is_valid_utf8(text.substr(at, n))) return n;
  }
  return 0;
}

/// Offset of the first byte that is not part of well-formed UTF-8. Bisected over prefixes, as a
/// prefix of good text may end inside a sequence of at most 4 bytes.
std::size_t first_bad_byte(std::string_view text) {
  std::size_t good = 0;
  std::size_t bad = text.size();
  while (bad - good > 4) {
    const std::size_t middle = good + (bad - good) / 2;
    const std::size_t end = good_end(text, good, middle);
    if (end > good) {
      good = end;
    } else {
      bad = middle;
    }
  }
  while (good < text.size()) {
    const std::size_t n = character_size(text, good);
    if (n == 0) return good;
    good += n;
  }
  return good;
}

Result<Rendered> from_ids(const std::vector<text::TokenId>& ids, const text::Tokenizer* tokenizer,
                          const wire::Prepare& job, const PrepareLimits& limits) {
  if (ids.size() > limits.prompt_ids) {
    return invalid("prompt: " + std::to_string(ids.size()) + " token ids; at most " +
                   std::to_string(limits.prompt_ids));
  }
  const std::int64_t vocab = tokenizer != nullptr ? tokenizer->vocab_size() : INT32_MAX;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    return invalid("prompt: token id " + std::to_string(ids[i]) + " at index " + std::to_string(i) +
                   "; the vocabulary is 0 to " + std::to_string(vocab - 1));
  }
  Rendered out{ids, {}, {}};
  if (job.echo && tokenizer != nullptr) {
    text::Releaser releaser;  // whole UTF-8 sequences only, as the answer carries text
    out.text = releaser.feed(text::decode(*tokenizer, ids, job.names, true));
    out.text += releaser.finish();
  }
  return out;
}

Result<Rendered> from_text(std::string_view prompt, const text::Tokenizer* tokenizer, bool special,
                           bool parse_special) {
  if (tokenizer == nullptr) {
    return invalid("prompt: the model's file holds no tokenizer; send token ids");
  }
  HOLDFAST_TRY(auto ids, tokenizer->encode(prompt, {special, parse_special}));
  Rendered out{std::move(ids), std::string(prompt), {}};
  const bool twice = out.ids.size() > 1 && tokenizer->bos() >= 0 &&
                     out.ids[0] == tokenizer->bos() && out.ids[1] == tokenizer->bos();
  if (twice) out.notes.emplace_back("double-bos");
  return out;
}

Result<Rendered> from_chat(std::string_view json, const text::Tokenizer* tokenizer,
                           const profile::Profile& profile) {
  if (tokenizer == nullptr) {
    return Error{Errc::kNoChatTemplate,
                 "chat: the model's file holds no tokenizer; send a prompt of token ids"};
  }
  // A template may write the date into the prompt. The ids are stored at acceptance, so it stays.
  const std::string today = text::utc_date(std::time(nullptr));
  HOLDFAST_TRY(RenderedChat chat, render_chat(json, *tokenizer, today, profile));
  // The template writes BOS and the like itself, as text.
  HOLDFAST_TRY(auto ids, tokenizer->encode(chat.text, {/*add_special=*/false, true, chat.plain}));
  return Rendered{std::move(ids), std::move(chat.text), std::move(chat.notes)};
}

Result<void> check_bytes(std::string_view prompt, const PrepareLimits& limits) {
  if (prompt.size() > limits.prompt_bytes) {
    return invalid("prompt: " + std::to_string(prompt.size()) + " bytes; at most " +
                   std::to_string(limits.prompt_bytes));
  }
  if (is_valid_utf8(prompt)) return {};
  return invalid("prompt: not UTF-8 at byte " + std::to_string(first_bad_byte(prompt)));
}

Result<Rendered> render(const wire::Prompt& prompt, const text::Tokenizer* tokenizer,
                        const wire::Prepare& job, const profile::Profile& profile,
                        const PrepareLimits& limits) {
  if (prompt.text.has_value() + prompt.ids.has_value() + prompt.messages_json.has_value() != 1) {
    return invalid("prompt: exactly one of text, ids and messages is wanted");
  }
  if (prompt.ids.has_value()) return from_ids(*prompt.ids, tokenizer, job, limits);
  const std::string& bytes = prompt.text.has_value() ? *prompt.text : *prompt.messages_json;
  HOLDFAST_CHECKED(check_bytes(bytes, limits));
  if (prompt.messages_json.has_value()) return from_chat(bytes, tokenizer, profile);
  return from_text(bytes, tokenizer, job.add_special, job.parse_special);
}

}  // namespace

wire::Prepared prepare(const wire::Prepare& job, const text::Tokenizer* tokenizer,
                       const PrepareLimits& limits) {
  wire::Prepared out;
  out.job = job.job;
  const auto refuse = [&](const Error& error) {
    out.ids.clear();
    out.text.clear();
    out.refusal.code = error.code;
    out.refusal.message = error.what;
    return out;
  };
  if (job.prompts.empty()) return refuse(invalid("prompt: none given"));
  const Result<profile::Profile> profile = profile::read_profile(job.profile);
  if (!profile) return refuse(profile.error());
  for (std::size_t i = 0; i < job.prompts.size(); ++i) {
    Result<Rendered> rendered = render(job.prompts[i], tokenizer, job, *profile, limits);
    if (rendered && rendered->ids.empty()) {
      rendered = invalid("prompt: empty; there is nothing to go on");
    }
    if (!rendered) return refuse(name_prompt(rendered.error(), i, job.prompts.size()));
    out.ids.push_back(std::move(rendered->ids));
    if (job.echo) out.text.push_back(std::move(rendered->text));
    for (std::string& note : rendered->notes) out.notes.push_back(std::move(note));
  }
  out.options = job.options;
  if (out.options) profile::give_options(*profile, *out.options);
  out.ok = true;
  return out;
}

const TokenizerCache::Entry* TokenizerCache::find(const std::string& model_sha) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const auto& entry) { return entry.first == model_sha; });
  if (it == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it);
  return &entries_.front().second;
}

void TokenizerCache::put(const std::string& model_sha, std::string blob) {
  Entry entry;
  if (!blob.empty()) {
    auto file = gguf::File::from_bytes(std::move(blob), "tokenizer of " + model_sha);
    Result<TokenizerPtr> loaded = file.has_value() ? text::Tokenizer::load(*file.value())
                                                   : Result<TokenizerPtr>(file.error());
    if (loaded.has_value()) {
      entry.tokenizer = std::move(loaded).value();
    } else {
      entry.error = loaded.error();
    }
  }
  entries_.remove_if([&](const auto& e) { return e.first == model_sha; });
  entries_.emplace_front(model_sha, std::move(entry));
  while (entries_.size() > size_) entries_.pop_back();
}

}  // namespace holdfast::ingress
