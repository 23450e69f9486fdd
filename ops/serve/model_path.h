#pragma once
// The path of a model as a user gives it: a GGUF file, a folder with one, or a folder in Hugging
// Face's form.

#include <string>

#include "shared/base/result.h"

namespace holdfast::cli {

/// The absolute path of the model that is meant: of another program's by its name there
/// (other_stores.h), for a folder without config.json the one GGUF file
/// in it. kNotFound: there is none, or several, which are named; kFileInvalid: the first bytes tell
/// that the file is something else, which is named.
Result<std::string> find_model(const std::string& path);

/// A name for a model by its path: what is before ".gguf", in lower case, odd characters as '-'.
std::string model_name_of(const std::string& path);

}  // namespace holdfast::cli
