#pragma once
// Bodies that are made to grow on whoever reads them, each by another way.

#include <string>
#include <vector>

namespace holdfast::bench {

struct Poison {
  const char* name;
  std::string body;  // of POST /v1/chat/completions, for the model "demo"
};
/// deep: a text that is deeply nested JSON. tools: n tools times n allowed ones. numbers: longer
/// when they are written again. large: longer than a message to the daemon may be.
std::vector<Poison> poisons();

/// A line of a batch's file.
std::string batch_line(const std::string& id, const std::string& body);
/// A body that nobody minds.
std::string good_body();

}  // namespace holdfast::bench
