#pragma once
// Documents judged by python3-jsonschema (validate.py), an independent implementation.

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::grammar::tests {

struct Judged {
  std::string schema;
  std::vector<std::string> documents;
};

/// Judges documents: for each case a text with one character a document: '1' valid, '0' not, 'x' no
/// JSON. Empty if the validator did not run (its reason is on stderr).
std::vector<std::string> judge(const std::vector<Judged>& cases);

/// A number from the environment, for other or more cases than usual.
std::uint64_t setting(const char* name, std::uint64_t otherwise);

/// The reason why a schema was refused, in short, for counting: the keyword, or "unsatisfiable".
std::string refusal(const std::string& what);

}  // namespace holdfast::grammar::tests
