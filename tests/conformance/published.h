#pragma once
// The published chat templates of the conformance data, and vocabularies with their control tokens.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/wire/made_tokenizer.h"

namespace holdfast::test {

/// Their folder ($HOLDFAST_CONFORMANCE_DIR/chat).
std::filesystem::path published_root();
/// By file name; empty where they are not there.
std::map<std::string, std::string> published_templates();

/// What looks like a control token in a template.
std::vector<std::string> controls_of(const std::string& source);

}  // namespace holdfast::test
