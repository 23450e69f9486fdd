#pragma once
// Ollama's names of options and parameters (github.com/ollama/ollama, docs/modelfile.mdx), and what
// of a Modelfile becomes a profile.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/profile/profile.h"

namespace holdfast::profile {

/// Returns our name for one of Ollama's options; nullopt for one that has no effect here, and for
/// what is none. num_predict and num_ctx have readers of their own.
std::optional<std::string_view> our_option(std::string_view ollama_name);
/// Returns Ollama's name for one of a profile's parameters, ours where it has none.
std::string_view ollama_option(std::string_view our_name);

/// The parameters of a Modelfile.
struct OllamaParameters {
  std::string json;                     // object for the profile's member `parameters`; empty: none
  std::int64_t context = 0;             // num_ctx; 0: not said
  std::vector<std::string> left_out;    // names of those without effect here
  std::vector<std::string> wrong = {};  // "NAME: why", of those that no request could have
};

/// Reads Ollama's object of parameters: what is right goes into `json`. kInvalidRequest if it is no
/// object.
Result<OllamaParameters> read_ollama_parameters(const nlohmann::ordered_json& object);

/// Returns the text of a license that Ollama's API takes: a text, or a list of texts, which become
/// one. kInvalidRequest for something else.
Result<std::string> read_ollama_license(const nlohmann::ordered_json& value);

/// Returns the parameters of a profile as Ollama shows them: a line each, name and value. `profile`
/// is the object of the model's row.
std::string ollama_parameters_text(const nlohmann::ordered_json& profile);
/// Returns a profile as a Modelfile over `from`, without its system message and messages unless
/// `whole`.
std::string modelfile_text(std::string_view from, const nlohmann::ordered_json& profile,
                           bool whole);

}  // namespace holdfast::profile
