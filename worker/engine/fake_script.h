#pragma once
// The script of a fake engine: answers by turn, as the tokens of the model's own tokenizer.
// docs/contribute/fake-engine.md.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/text/tokenizer.h"

namespace holdfast::engine {

/// One line of a script: what the fake engine says to which prompts.
struct ScriptTurn {
  std::vector<std::string> when;  // all of them occur in the prompt; none: any prompt
  std::string say;
};

/// Reads [{"when": TEXT or [TEXT, …], "say": TEXT}, …]. kInvalidRequest names the turn that is
/// none.
Result<std::vector<ScriptTurn>> parse_script(const nlohmann::json& turns);

/// A script's answers as tokens. Immutable. An answer is a function of the prompt's ids alone, so
/// that a resumed sequence goes on with the token that it would have had.
class FakeScript {
 public:
  FakeScript() = default;
  /// kUnsupported: the tokenizer cannot write one of the texts as it stands, or has no end token.
  static Result<FakeScript> make(const std::vector<ScriptTurn>& turns,
                                 const text::Tokenizer& tokenizer);

  bool empty() const { return turns_.empty(); }
  /// Returns the answer of the last turn of the list that fits the prompt, its end token included.
  /// Valid as long as the script. kInvalidRequest if none fits.
  Result<const std::vector<text::TokenId>*> answer(const std::vector<text::TokenId>& prompt,
                                                   const text::Tokenizer& tokenizer) const;
  /// A digest of the whole script: two scripts that say the same have the same name.
  std::string name() const;

 private:
  struct Turn {
    std::vector<std::string> when;
    std::vector<text::TokenId> ids;
  };
  std::vector<Turn> turns_;
};

}  // namespace holdfast::engine
