#pragma once
// A tokenizer of bytes with a chat template and special tokens of its own, loaded as from a file.

#include <memory>
#include <string>
#include <vector>

#include "shared/text/tokenizer.h"

namespace holdfast::test {

/// Ids 0 to 255 are bytes, then "<bos>" and "<eos>", the controls, the words.
std::shared_ptr<const text::Tokenizer> make_tokenizer(const std::string& chat_template,
                                                      const std::vector<std::string>& controls,
                                                      const std::vector<std::string>& words = {});

/// Returns how many of the ids are control tokens.
int count_controls(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& ids);

/// Returns the ids of a chat request.
Result<std::vector<text::TokenId>> chat_ids(const text::Tokenizer& tokenizer,
                                            const std::string& json);

}  // namespace holdfast::test
