#pragma once
// Keeps the text of clients text. A template joins it with control tokens to one prompt, where
// "<|im_end|>" in a message would end the turn. So each place in a client's text where a special
// token begins gets a mark, a character that nobody writes. Templates copy it; take() removes it
// from the result, and no special token begins where one stood.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shared/text/tokenizer.h"

namespace holdfast::ingress {

/// The marks of one request and its template. Immutable after construction.
class PlainMarks {
 public:
  struct Text {
    std::string text;
    std::vector<std::size_t> plain;  // text::EncodeOptions::plain
  };
  /// `request`: the text that must not contain the mark. Tokenizer and template must outlive it.
  PlainMarks(const text::Tokenizer& tokenizer, std::string_view chat_template,
             std::string_view request);

  /// Returns false if the request has every character that could be a mark.
  bool usable() const { return !mark_.empty(); }
  /// A second such character, to find a place again in a template's output. Empty: none is left.
  const std::string& position_mark() const { return position_mark_; }
  /// Marks every text in `messages_or_tools`, names of members too, but not roles. Text that the
  /// model wrote may hold its own marks of reasoning, which templates look for.
  void add(nlohmann::ordered_json& messages_or_tools) const;
  /// Removes the marks from a template's output; Text::plain has the characters before them.
  Text take(std::string_view rendered) const;

 private:
  enum class Writer { kClient, kModel, kClosed };  // kClosed: the model, in text without reasoning
  bool begins_thinking(std::string_view text) const;
  bool wants_mark(std::string_view text, std::size_t at, Writer writer) const;
  void add_to(std::string& text, Writer writer) const;
  void add_to(nlohmann::ordered_json& value, Writer writer) const;
  bool is_plain(text::TokenId id, Writer writer) const;

  const text::Tokenizer& tokenizer_;
  const std::string_view template_;
  std::string mark_, escaped_;  // the mark itself, and its escape in ASCII JSON
  std::string position_mark_;
};

}  // namespace holdfast::ingress
