// Any bytes whatever as one file of a model folder: tokenizer.json, *.safetensors or config.json
// (the first byte says which), the others honest and small. Run under AddressSanitizer and UBSan. A
// crash, an error without words or an id out of range is a bug. Seeds: files that `holdfast
// convert` writes from `holdfast synth tiny`, each with its byte in front.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "shared/hf/folder.h"
#include "shared/plan/plan.h"
#include "shared/text/tokenizer.h"

namespace {

using namespace holdfast;

constexpr const char* kConfig =
    R"({"model_type":"llama","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("intermediate_size":4,"vocab_size":4,"max_position_embeddings":8,"rms_norm_eps":1e-5})";
constexpr const char* kTokenizer =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)"
    R"("decoder":{"type":"ByteLevel"}})";

/// One folder for the process's life.
const std::string& folder() {
  static const std::string path = [] {
    const std::filesystem::path made =
        std::filesystem::temp_directory_path() / ("holdfast-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    return made.string();
  }();
  return path;
}

void put(const char* name, std::string_view bytes) {
  std::ofstream(folder() + "/" + name, std::ios::binary) << bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int kind = data[0] % 3;
  put("tokenizer.json", kind == 0 ? bytes : std::string_view(kTokenizer));
  put("model.safetensors", kind == 1 ? bytes : std::string_view("\x02\0\0\0\0\0\0\0{}", 10));
  put("config.json", kind == 2 ? bytes : std::string_view(kConfig));
  const auto file = hf::open_model(folder());
  if (!file) {
    CHECK(!file.error().what.empty());
    return 0;
  }
  (void)plan::read_shape(**file);
  const auto tokenizer = text::Tokenizer::load(**file);
  if (!tokenizer) return 0;
  for (const char* text : {"abab b", "a \xC3\xA9\n1234", "<s></s>[CLS]"}) {
    const auto ids = (*tokenizer)->encode(text, {});
    if (!ids) continue;
    for (const text::TokenId id : *ids) CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
  }
  return 0;
}
