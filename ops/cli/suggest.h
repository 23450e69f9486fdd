#pragma once
// Suggestions for an unknown word of a command line: near words of our own, and words of other
// servers and their tools.

#include <string>
#include <string_view>
#include <vector>

#include "ops/cli/verbs.h"

namespace holdfast::cli {

/// Insertions, deletions, changes and swaps of neighbours that make one word of the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that is nearest to a word and near enough to be meant; empty if none is.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The candidates that may be meant by a word, the nearest first, three at most: those with nearly
/// the same letters, or that contain it or are contained in it.
std::vector<std::string> near_words(std::string_view word,
                                    const std::vector<std::string>& candidates);

/// The arguments with dashes for underscores in flags where that makes a flag of the verb:
/// --max_tokens is --max-tokens. Values stay.
std::vector<std::string> with_dashes(std::vector<std::string> words);

/// Names the first unknown verb or flag of a command line, and what may have been meant; empty if
/// all of them are known. `words` are in the order in which they were typed.
std::string explain_unknown(const std::vector<std::string>& words);

/// "models add", as the words begin: a verb, a group or nothing.
std::string verb_path_of(const std::vector<std::string>& words);

}  // namespace holdfast::cli
