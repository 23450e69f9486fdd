#pragma once
// Keeps what clients write text. A template joins their texts with its control tokens to one
// prompt, where "<|im_end|>" in a message would end the turn. So each place in a client's text
// where a special token begins gets a mark, a character that nobody writes; templates carry it
// along; what comes out of them is read without the marks, and where one stood no special token
// begins.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shared/text/tokenizer.h"

namespace holdfast::ingress {

class PlainMarks {
 public:
  struct Text {
    std::string text;
    std::vector<std::size_t> plain;  // text::EncodeOptions::plain
  };
  /// `request`: the texts that marks must be told from. Tokenizer and template outlive it.
  PlainMarks(const text::Tokenizer& tokenizer, std::string_view chat_template,
             std::string_view request);

  /// False: the request has every character that could be a mark.
  bool usable() const { return !mark_.empty(); }
  /// A character to find a place again in what a template writes. Empty: there is none left.
  const std::string& place() const { return place_; }
  /// Marks every text in it, names of members too, but for roles. What the model wrote itself may
  /// hold its own marks of thinking, which templates look for.
  void add(nlohmann::ordered_json& messages_or_tools) const;
  /// What a template made of such texts.
  Text take(std::string_view rendered) const;

 private:
  enum class Writer { kClient, kModel, kClosed };  // kClosed: the model, thinking of nothing
  bool begins_thinking(std::string_view text) const;
  bool wants_mark(std::string_view text, std::size_t at, Writer writer) const;
  void add_to(std::string& text, Writer writer) const;
  void add_to(nlohmann::ordered_json& value, Writer writer) const;
  bool is_plain(text::TokenId id, Writer writer) const;

  const text::Tokenizer& tokenizer_;
  const std::string_view template_;
  std::string mark_, escaped_;  // as it is, and as JSON in ASCII has it
  std::string place_;
};

}  // namespace holdfast::ingress
