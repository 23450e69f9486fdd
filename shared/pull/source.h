#pragma once
// The place from which a model is pulled, as a person writes it:
//
//   hf.co/ORG/REPO[@REVISION][:QUANT or FILE.gguf]   the Hugging Face hub
//   https://HOST/PATH/FILE.gguf[#sha256=HEX]         a file
//   ollama://[HOST/[NAMESPACE/]]NAME[:TAG]           a registry that speaks Ollama's manifests
//   oci://HOST/REPOSITORY[:TAG or @sha256:HEX]       any OCI registry

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::pull {

/// The kinds of places, each with its own protocol.
enum class SourceKind : std::uint8_t { kHub, kFile, kOllama, kOci };

/// A parsed source.
struct Source {
  SourceKind kind = SourceKind::kFile;
  std::string base;        // "https://HOST[:PORT]" of a hub or registry
  std::string repository;  // "ORG/REPO", "library/llama3.2"
  std::string reference;   // revision, tag or digest
  std::string variant;     // of a hub: the quantization or the file; empty: the usual one
  std::string url;         // of a file
  std::string sha256;      // of a file: 64 digits in lower case; empty: not given
};

/// The hub of sources that name none.
inline constexpr std::string_view kHubHost = "hf.co";
inline constexpr std::string_view kHubBase = "https://huggingface.co";
inline constexpr std::string_view kOllamaHost = "registry.ollama.ai";

/// Parses a source. `hub`: the base URL of the hub, empty for kHubBase (HF_ENDPOINT). Plain http is
/// for this machine alone. kUsage says what is wrong and which forms there are.
Result<Source> parse_source(std::string_view text, std::string_view hub = {});

/// Returns the source in one form: equal texts are one source.
std::string to_text(const Source& source);

/// Returns the name that a model gets from its source: "smollm2-135m-q8_0", "llama3.2:1b".
std::string default_name(const Source& source);

/// Returns true for a relative path of plain names: no "..", no empty part, no odd character. Such
/// a path stays below the folder to which it is appended.
bool is_plain_path(std::string_view path);

}  // namespace holdfast::pull
