#pragma once
// Models that other programs have on this machine: the caches of Hugging Face's libraries, Ollama's
// store and LM Studio's folder. Their files are served where they lie; nothing is copied or
// changed.
//
//   hf:ORG/REPO[@REVISION][:QUANT]   $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub
//   ollama:NAME[:TAG]                $OLLAMA_MODELS, ~/.ollama/models, /usr/share/ollama/…
//   lmstudio:PUBLISHER/MODEL[:QUANT] ~/.lmstudio/models, ~/.cache/lm-studio/models

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/profile/layers.h"

namespace holdfast::cli {

/// A model of another program.
struct StoredModel {
  std::string source;  // as find_stored_model() takes it
  std::string path;    // of the file or folder
  std::int64_t bytes = 0;
};

/// True if the text names a model of another program, by its first word.
bool names_other_store(std::string_view text);

/// Returns the path of the model that the text names. kNotFound says where it was looked for;
/// kUnsupported: it is there, in a form that does not run (several layers of weights).
Result<std::string> find_stored_model(std::string_view text);

/// Returns what a model of Ollama's store has beside its weights. Nothing for other models.
Result<profile::TakenOver> find_stored_profile(std::string_view text);

/// Returns all models of other programs, by source. What cannot be read is left out.
std::vector<StoredModel> list_stored_models();

}  // namespace holdfast::cli
