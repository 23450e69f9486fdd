#pragma once
// The published chat templates of the conformance data, and vocabularies with their control tokens.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/wire/made_tokenizer.h"

namespace holdfast::test {

/// The folder of the templates ($HOLDFAST_CONFORMANCE_DIR/chat).
std::filesystem::path published_root();
/// Reads the templates, by file name; empty if the folder does not exist.
std::map<std::string, std::string> published_templates();

/// Finds texts that look like control tokens in a template.
std::vector<std::string> controls_of(const std::string& source);

}  // namespace holdfast::test
