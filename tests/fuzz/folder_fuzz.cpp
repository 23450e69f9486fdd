// Any bytes whatever as one file of a model folder: tokenizer.json, *.safetensors, config.json,
// modules.json, the config of its pooling or vocab.txt (the first byte selects the file, and the
// family of the folder), the others honest and small. A model that opens is assembled and written
// out again. Run under AddressSanitizer and UBSan. A crash, an error without words or an id out of
// range is a bug. Seeds: files that `holdfast convert` writes from `holdfast synth`, each with its
// byte in front.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "shared/gguf/made.h"
#include "shared/huggingface/export.h"
#include "shared/huggingface/families.h"
#include "shared/huggingface/folder.h"
#include "shared/plan/plan.h"
#include "shared/text/tokenizer.h"

namespace {

using namespace holdfast;

// A tiny llama with such a quantization_config.
#define QUANTISED(how)                                                                       \
  R"({"model_type":"llama","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,)"  \
  R"("intermediate_size":4,"vocab_size":4,"max_position_embeddings":8,"rms_norm_eps":1e-5,)" \
  R"("quantization_config":)" how "}"

/// One config for each way in which tensors are assembled.
constexpr const char* kConfigs[] = {
    R"({"model_type":"llama","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("intermediate_size":4,"vocab_size":4,"max_position_embeddings":8,"rms_norm_eps":1e-5})",
    R"({"model_type":"mixtral","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("num_key_value_heads":2,"intermediate_size":4,"vocab_size":4,"num_local_experts":2,)"
    R"("max_position_embeddings":8})",
    R"({"model_type":"granitemoe","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("intermediate_size":4,"vocab_size":4,"num_local_experts":2,"max_position_embeddings":8})",
    R"({"model_type":"gpt2","n_embd":4,"n_layer":1,"n_head":2,"n_positions":8,"vocab_size":4})",
    R"({"model_type":"bert","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("intermediate_size":4,"vocab_size":4,"max_position_embeddings":8})",
    R"({"model_type":"gemma3","text_config":{"hidden_size":4,"num_hidden_layers":1,)"
    R"("num_attention_heads":2,"num_key_value_heads":2,"head_dim":2,"intermediate_size":4,)"
    R"("vocab_size":4,"query_pre_attn_scalar":2}})",
    QUANTISED(R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":true,"sym":false})"),
    QUANTISED(R"({"quant_method":"gptq","bits":3,"group_size":-1,"sym":true})"),
    QUANTISED(R"({"quant_method":"awq","bits":4,"group_size":32})"),
    QUANTISED(R"({"quant_method":"fp8","weight_block_size":[2,2]})"),
    QUANTISED(R"({"quant_method":"compressed-tensors","format":"mixed-precision","config_groups":)"
              R"({"a":{"weights":{"num_bits":4,"strategy":"group","group_size":32,)"
              R"("actorder":"group","symmetric":false}},"b":{"weights":{"num_bits":8,)"
              R"("type":"float","strategy":"channel"}}}})"),
    QUANTISED(R"({"quant_method":"bitsandbytes","load_in_4bit":true})"),
    QUANTISED(R"({"quant_method":"modelopt","quant_algo":"NVFP4"})")};
#undef QUANTISED
constexpr const char* kModules =
    R"([{"path":"","type":"Transformer"},{"path":"1_Pooling","type":"Pooling"}])";
constexpr const char* kTokenizer =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)"
    R"("decoder":{"type":"ByteLevel"}})";

/// The one folder of the process.
const std::string& folder() {
  static const std::string path = [] {
    const std::filesystem::path made =
        std::filesystem::temp_directory_path() / ("holdfast-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(made / "1_Pooling");
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
  const int kind = data[0] % 6;
  const char* config = kConfigs[data[0] / 6 % std::size(kConfigs)];
  const bool words = kind == 5;
  std::filesystem::remove(folder() + "/tokenizer.json");
  if (!words) put("tokenizer.json", kind == 0 ? bytes : std::string_view(kTokenizer));
  if (words) put("vocab.txt", bytes);
  put("model.safetensors", kind == 1 ? bytes : std::string_view("\x02\0\0\0\0\0\0\0{}", 10));
  put("config.json", kind == 2 ? bytes : std::string_view(config));
  put("modules.json", kind == 3 ? bytes : std::string_view(kModules));
  put("1_Pooling/config.json",
      kind == 4 ? bytes : std::string_view(R"({"pooling_mode_mean_tokens":true})"));
  const auto file = huggingface::open_model(folder());
  if (!file) {
    CHECK(!file.error().what.empty());
    return 0;
  }
  for (const gguf::TensorInfo& tensor : (*file)->tensors()) {
    const auto held = gguf::Held::of(tensor);
    if (!held) {  // numbers of a quantised layer that are none
      CHECK(!held.error().what.empty());
      continue;
    }
    std::uint64_t sum = 0;
    for (const std::byte b : tensor.data) sum += static_cast<std::uint64_t>(b);
    CHECK(sum <= 255 * tensor.data.size());
  }
  if (const huggingface::Family* family = huggingface::family_of_file(**file)) {
    (void)huggingface::keys_to_config(**file, *family);
  }
  (void)huggingface::keys_to_tokenizer(**file);
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
