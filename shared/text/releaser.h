#pragma once
// The text release rule: the text released after i tokens is a pure function of the first i tokens.
// So a stream that resumes at i repeats nothing and loses nothing, whichever process serves it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::text {

/// Takes the bytes of tokens in order and returns text that is final: whole UTF-8 sequences
/// (invalid bytes become U+FFFD, one for each maximal invalid part) and nothing that could still
/// become a stop string. Not thread-safe; a copy continues independently.
///
/// The stop string that is complete first wins, however it is split into tokens; of several that
/// end with the same character the longest, of equal ones the first in the list. Stops are compared
/// with the released text (so with U+FFFD in place of invalid bytes); empty ones and ones that are
/// not UTF-8 never match. Cost: a step for each byte and stop, memory bounded by the longest.
class Releaser {
 public:
  explicit Releaser(std::vector<std::string> stops = {});
  /// Returns the text that token `bytes` releases (often empty or several tokens' worth). After
  /// stopped() the result is always empty.
  std::string feed(std::string_view bytes);
  /// Returns the text at the end of a stream without a stop string: what was held back, an
  /// unfinished UTF-8 sequence as U+FFFD.
  std::string finish();
  /// Returns true if a stop string has appeared; text before it was released, it and the text after
  /// never is.
  bool stopped() const { return stopped_; }
  /// Returns the index of the stop string, -1 if none.
  int stop_index() const { return stop_index_; }

 private:
  // The Knuth-Morris-Pratt automaton of one stop string.
  struct Automaton {
    int stop = 0;                       // index in stops_
    std::uint32_t matched = 0;          // bytes of the stop that the text ends with
    std::vector<std::uint32_t> border;  // longest proper border of each prefix
  };
  /// Moves a stop's matched length on by the bytes of a character.
  void advance(Automaton& automaton, std::string_view character) const;
  void accept(std::string_view character);

  std::vector<std::string> stops_;
  std::vector<Automaton> automata_;
  std::string held_;      // valid text that may begin a stop string
  std::string tail_;      // bytes of an unfinished UTF-8 sequence
  std::string released_;  // by the current call
  bool stopped_ = false;
  int stop_index_ = -1;
};

}  // namespace holdfast::text
