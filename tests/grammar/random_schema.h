#pragma once
// Random schemas and documents for the differential test. Everything is drawn from one generator,
// so a seed names a case.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <random>
#include <string>

namespace holdfast::grammar::tests {

class RandomSchema {
 public:
  explicit RandomSchema(std::uint64_t seed) : random_(seed) {}
  /// Makes a schema of this depth with "$defs"; counts the keywords that it uses in `histogram`.
  std::string make(int depth, std::map<std::string, int>& histogram);
  /// Makes a document like `text` with something changed. Empty if the result is not in the form of
  /// generated documents (a float without fraction, an exponent).
  std::string mutate(const std::string& text);
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

 private:
  using Json = nlohmann::ordered_json;
  Json schema(int depth);
  Json scalar();
  Json number();
  Json text();
  Json array(int depth);
  Json object(int depth);
  Json combination(int depth);
  Json negation(int depth);
  Json condition(int depth);
  Json value();
  void change(Json& at, int depth);

  std::mt19937_64 random_;
  int names_ = 0;
};

}  // namespace holdfast::grammar::tests
