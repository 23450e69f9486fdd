#include "shared/gguf/writer.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {

Result<std::string> tokenizer_blob(const gguf::File& file) {
  if (!file.get_string("tokenizer.ggml.model")) {
    return Error{Errc::kFileInvalid, "read tokenizer of " + std::string(file.name()) +
                                         ": key \"tokenizer.ggml.model\" is missing; convert the "
                                         "model together with its tokenizer"};
  }
  gguf::Writer writer;
  if (file.has("general.architecture")) writer.copy_key(file, "general.architecture");
  for (const std::string& key : file.keys()) {
    if (key.starts_with("tokenizer.")) writer.copy_key(file, key);
  }
  return writer.to_bytes();
}

}  // namespace holdfast::plan
