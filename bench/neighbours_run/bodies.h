#pragma once
// Request bodies that grow in the process that reads them, each in another way.

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
/// A body without any of these.
std::string good_body();

}  // namespace holdfast::bench
